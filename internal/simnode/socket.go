package simnode

import (
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
)

// maxSocketPath is what fits into sockaddr_un with its closing NUL.
const maxSocketPath = 107

// socket is a gRPC server on a unix socket.
type socket struct {
	server *grpc.Server
	served chan error // the end of Serve
}

// openSocket serves on a path until it is closed.
func openSocket(path string, register func(grpc.ServiceRegistrar)) (*socket, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("socket path %s is %d bytes long, %d are possible: choose a shorter directory",
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

// close ends the server and removes the socket. A server that was stopped before it
// began to serve says so, which is no failure.
func (s *socket) close() error {
	s.server.Stop()
	if err := <-s.served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}
