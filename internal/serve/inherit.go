package serve

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sockets is an environment variable. A program that executes itself again uses the variable to
// pass the file descriptors of its listening sockets, in the order of its addresses. The systemd
// convention LISTEN_FDS is not used, because it requires fixed file descriptors, and Go's runtime
// may already use them.
const sockets = "GPULEDGER_SOCKETS"

// Bequeath keeps the listening sockets open for the program that this process executes next. The new program must get
// the returned environment variables and call Inherit. Clients that connect before the new program runs must wait until
// it runs.
func (s *Server) Bequeath() (environment []string, err error) {
	listeners := s.listening.Load()
	if listeners == nil {
		return nil, nil
	}
	var numbers []string
	for _, l := range *listeners {
		fd, err := duplicate(l)
		if err != nil {
			return nil, fmt.Errorf("keep the socket of %s: %w", l.Addr(), err)
		}
		numbers = append(numbers, strconv.Itoa(fd))
	}
	s.bequeathed.Store(true)
	return []string{sockets + "=" + strings.Join(numbers, ",")}, nil
}

// duplicate duplicates a listener's file descriptor. The duplicate stays open when this process executes a program.
func duplicate(l net.Listener) (fd int, err error) {
	connection, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		return -1, err
	}
	control := connection.Control(func(socket uintptr) { fd, err = unix.Dup(int(socket)) })
	if control != nil {
		return -1, control
	}
	return fd, err
}

// Inherit takes over the sockets that an earlier program in this process kept open when it executed this program. It
// takes over the sockets only if there is a socket for each address. It reports whether it took over the sockets.
// Inherit must be called before Run.
func (s *Server) Inherit() bool {
	numbers := strings.FieldsFunc(os.Getenv(sockets), func(r rune) bool { return r == ',' })
	_ = os.Unsetenv(sockets)
	if len(numbers) != len(s.cfg.ListenAddresses) {
		return false
	}
	for _, number := range numbers {
		fd, err := strconv.Atoi(number)
		if err != nil {
			return false
		}
		file := os.NewFile(uintptr(fd), "socket")
		l, err := net.FileListener(file)
		_ = file.Close()
		if err != nil {
			s.log.Error("cannot use a socket that was open before the restart", "err", err)
			return false
		}
		s.inherited = append(s.inherited, l)
	}
	return true
}
