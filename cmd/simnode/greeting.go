package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
)

func greet(w io.Writer, opts options, dir string) {
	url, fields := baseURL(opts.listen), ""
	if opts.dcgm {
		fields = "\n  DCGM fields         curl -s " + url + "/gpu/metrics"
	}
	fmt.Fprintf(w, `
gpuledger on a simulated node, %s: %s

  status page         %s/
  as text             %[5]s
  metrics             %[3]s/metrics
  energy per pod      curl -s %[3]s/metrics | grep ^gpuledger_container_energy
  GPU identity        curl -s %[3]s/metrics | grep ^gpuledger_gpu_info
  inventory as JSON   curl -s %[3]s/inventory%[6]s
  true energy use     %[4]s

Ctrl-C stops both.

`, opts.scenario.Name, opts.scenario.Description, url, filepath.Join(dir, "truth.json"), statusCommand(opts.exporter, url), fields)
}

// The path in the command is relative if the exporter is in a subfolder of the working directory.
func statusCommand(exporter, url string) string {
	here, _ := os.Getwd()
	if near, err := filepath.Rel(here, exporter); err == nil && filepath.IsLocal(near) && filepath.Base(near) != near {
		exporter = near
	}
	if url == "http://127.0.0.1:9840" { // default of the command status
		return exporter + " status"
	}
	return exporter + " status --url=" + url
}

// baseURL returns a URL that a client on this machine can use, even if the listen address has no host.
func baseURL(listen string) string {
	host, port, _ := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}
