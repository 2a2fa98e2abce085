//go:build e2e

package scale_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var exporterPort atomic.Int32

func addressOf(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 1 + byte(i>>16), byte(i >> 8), byte(i)})
}

// serveExporters serves the inventories of all Nodes with one listener on all loopback addresses. The destination
// address of a request identifies the Node.
func serveExporters(tb testing.TB) {
	tb.Helper()
	loopback := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if failed := c.Control(func(fd uintptr) { err = syscall.BindToDevice(int(fd), "lo") }); failed != nil {
			return failed
		}
		return err
	}}
	l, err := loopback.Listen(tb.Context(), "tcp4", "0.0.0.0:0")
	if err != nil {
		tb.Fatal(err)
	}
	exporterPort.Store(int32(l.Addr().(*net.TCPAddr).Port))
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr).AddrPort().Addr().Unmap().As4()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(inventory(int(at[1]-1)<<16 | int(at[2])<<8 | int(at[3]))) // the client may have closed the connection
	})}
	go func() { _ = server.Serve(l) }() // returns when the server is closed
	tb.Cleanup(func() { _ = server.Close() })
}

// inventory returns the page of a Node in a rack of 18 trays, in the format of docs/labels.md.
func inventory(i int) any {
	type object = map[string]any
	var gpus []object
	for n := range gpusPerNode {
		gpus = append(gpus, object{
			"uuid": fmt.Sprintf("GPU-%08x-0000-4000-8000-%012x", i, n), "index": n, "present": true, "vendor": "nvidia",
			"serial": fmt.Sprintf("16%05d%04d", i, n), "pci_bus_id": fmt.Sprintf("00000000:%02X:00.0", 0x10+n), "model": "NVIDIA B200",
			"board_part_number": "900-2G548-0000-000", "vbios_version": "97.00.52.00.0C",
			"platform": object{"chassis_serial": fmt.Sprintf("18%07d", i/18), "chassis_slot": i % 18, "tray_index": i % 18},
		})
	}
	return object{"version": 1, "time": time.Now().UTC(), "driver_up": true, "node": object{"node": nodeName(i)}, "gpus": gpus}
}
