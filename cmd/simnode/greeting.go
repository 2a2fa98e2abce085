package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
)

// greet says where everything is and what is worth a look.
func greet(w io.Writer, opts options, dir string) {
	url, fields := baseURL(opts.listen), ""
	if opts.dcgm {
		fields = "\n  fields of DCGM      curl -s " + url + "/gpu/metrics"
	}
	fmt.Fprintf(w, `
gpuledger on a simulated node, %s: %s

  to look at          %s/
  the same here       %[5]s
  metrics             %[3]s/metrics
  joules of each pod  curl -s %[3]s/metrics | grep ^gpuledger_container_energy
  which board is it   curl -s %[3]s/metrics | grep ^gpuledger_gpu_info
  for other programs  curl -s %[3]s/inventory%[6]s
  what is really true %[4]s

Ctrl-C ends both.

`, opts.scenario.Name, opts.scenario.Description, url, filepath.Join(dir, "truth.json"), statusCommand(opts.exporter, url), fields)
}

// statusCommand is how the node is looked at from here, short enough for a terminal.
func statusCommand(exporter, url string) string {
	here, _ := os.Getwd()
	if near, err := filepath.Rel(here, exporter); err == nil && filepath.IsLocal(near) && filepath.Base(near) != near {
		exporter = near
	}
	if url == "http://127.0.0.1:9840" { // which it asks by itself
		return exporter + " status"
	}
	return exporter + " status --url=" + url
}

// baseURL is the address as a client on this machine writes it.
func baseURL(listen string) string {
	host, port, _ := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}
