package program

import (
	"context"
	"net"
	"testing"
	"time"
)

func TestWaitFree(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	time.AfterFunc(50*time.Millisecond, func() { l.Close() })
	if err := WaitFree(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	again, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := WaitFree(ctx, address); err == nil {
		t.Errorf("no error for %s, which is in use", address)
	}
}
