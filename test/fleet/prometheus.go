package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// Prometheus describes the Prometheus of one cluster or of all clusters.
type Prometheus struct {
	Name    string
	Cluster string // external label; if it is empty, each series has the cluster of its node
	Address string
	Nodes   []Node // nodes that Prometheus scrapes
	Scrape  time.Duration
	Rules   []string // patterns of rule files
	Archive string   // address of the archive that Prometheus scrapes, or empty
	// RemoteWrite is the URL to which Prometheus sends all samples, or empty.
	RemoteWrite string
	Flags       []string
}

// URL returns the address of the server.
func (p Prometheus) URL() string { return "http://" + p.Address }

// object is written as JSON, which is valid YAML.
type object map[string]any

// config equals manifests/prometheus except for the discovery of targets.
func (p Prometheus) config() ([]byte, error) {
	var targets []object
	for _, n := range p.Nodes {
		sc, err := n.Simulated()
		if err != nil {
			return nil, err
		}
		labels := object{"node": sc.Node, "instance": sc.Node}
		if p.Cluster == "" && n.Cluster != "" {
			labels["cluster"] = n.Cluster
		}
		targets = append(targets, object{"targets": []string{n.Address}, "labels": labels})
	}
	job := func(name, path string) object {
		return object{"job_name": name, "metrics_path": path, "honor_labels": true, "static_configs": targets}
	}
	every := p.Scrape.String()
	global := object{"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every}
	if p.Cluster != "" {
		global["external_labels"] = object{"cluster": p.Cluster}
	}
	c := object{"global": global, "rule_files": p.Rules}
	var scraped []object
	if len(targets) > 0 {
		scraped = append(scraped, job("gpuledger", "/metrics"), job("gpuledger-record", "/metrics/record"))
	}
	if p.Archive != "" {
		scraped = append(scraped, object{"job_name": "gpuledger-archive", "static_configs": []object{{"targets": []string{p.Archive}}}})
	}
	c["scrape_configs"] = scraped
	if p.RemoteWrite != "" {
		c["remote_write"] = []object{{"url": p.RemoteWrite, "queue_config": object{"batch_send_deadline": "1s"}}}
	}
	return json.Marshal(c)
}

// StartPrometheus starts a server and waits until it is ready. A server that is started again under its old name keeps
// its data.
func (f *Fleet) StartPrometheus(ctx context.Context, p Prometheus) (*program.Program, error) {
	config, err := p.config()
	if err != nil {
		return nil, fmt.Errorf("configure %s: %w", p.Name, err)
	}
	s := f.Server(p.Name, p.Address)
	s.Config, s.Flags = config, p.Flags
	return s.Start(ctx)
}

// Server returns a Prometheus that scrapes nothing. A history can be loaded into it.
func (f *Fleet) Server(name, address string) prometheus.Server {
	return prometheus.Server{Programs: f.programs.Prometheus, Group: f.Group, Name: name, Address: address}
}
