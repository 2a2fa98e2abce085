package simnode

import (
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
)

// maxSocketPath is the maximum length of a path that fits into sockaddr_un, with its terminating NUL.
const maxSocketPath = 107

type socket struct {
	server *grpc.Server
	served chan error // receives the result of Serve
}

// openSocket starts a server. It serves until it is closed.
func openSocket(path string, register func(grpc.ServiceRegistrar)) (*socket, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("socket path %s has %d bytes, limit is %d: choose a shorter directory",
			path, len(path), maxSocketPath)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	s := &socket{server: grpc.NewServer(), served: make(chan error, 1)}
	register(s.server)
	go func() { s.served <- s.server.Serve(listener) }()
	return s, nil
}

// close ignores the error of a server that was stopped before it began to serve.
func (s *socket) close() error {
	s.server.Stop()
	if err := <-s.served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}
