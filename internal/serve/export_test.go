package serve

import (
	"context"
	"net"
	"net/http"
)

func (s *Server) Serve(ctx context.Context, handler http.Handler, listeners ...net.Listener) error {
	return s.serve(ctx, handler, listeners)
}
