package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Prometheus is the Prometheus of a cluster, or one that those of all clusters write
// to.
type Prometheus struct {
	Name    string
	Cluster string // the external label; none if empty
	Address string
	Nodes   []Node // what it scrapes
	Scrape  time.Duration
	Rules   []string // files, with patterns
	// RemoteWrite is where all is sent on; nowhere if empty.
	RemoteWrite string
	Flags       []string
}

// URL returns the address of the server.
func (p Prometheus) URL() string { return "http://" + p.Address }

// object is a part of a configuration. JSON is YAML too.
type object map[string]any

// config returns the server's configuration. Scraping is as in manifests/prometheus,
// but for the discovery.
func (p Prometheus) config() ([]byte, error) {
	var targets []object
	for _, n := range p.Nodes {
		sc, err := n.Simulated()
		if err != nil {
			return nil, err
		}
		targets = append(targets, object{"targets": []string{n.Address}, "labels": object{"node": sc.Node, "instance": sc.Node}})
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
	if len(targets) > 0 {
		c["scrape_configs"] = []object{job("gpuledger", "/metrics"), job("gpuledger-record", "/metrics/record")}
	}
	if p.RemoteWrite != "" {
		c["remote_write"] = []object{{"url": p.RemoteWrite, "queue_config": object{"batch_send_deadline": "1s"}}}
	}
	return json.Marshal(c)
}

// StartPrometheus starts a server and waits until it is ready. Its data are there
// again when one of the same name is started.
func (f *Fleet) StartPrometheus(ctx context.Context, p Prometheus) (*Program, error) {
	config, err := p.config()
	if err != nil {
		return nil, fmt.Errorf("configure %s: %w", p.Name, err)
	}
	file := f.Path(p.Name + ".yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	args := append([]string{"--config.file=" + file, "--storage.tsdb.path=" + f.Path(p.Name), "--web.listen-address=" + p.Address}, p.Flags...)
	program, err := f.Start(p.Name, filepath.Join(f.programs.Prometheus, "prometheus"), args...)
	if err != nil {
		return nil, err
	}
	return program, program.ready(ctx, p.URL()+"/-/ready")
}

// Blocks makes blocks of a file in the OpenMetrics format.
func (f *Fleet) Blocks(ctx context.Context, openMetrics, dir string) error {
	return f.promtool(ctx, "tsdb", "create-blocks-from", "openmetrics", openMetrics, dir)
}

// Backfill makes blocks of the answers that a running Prometheus has for the rules of a
// file.
func (f *Fleet) Backfill(ctx context.Context, p Prometheus, from, to time.Time, rules, dir string) error {
	return f.promtool(ctx, "tsdb", "create-blocks-from", "rules", "--url="+p.URL(),
		fmt.Sprintf("--start=%d", from.Unix()), fmt.Sprintf("--end=%d", to.Unix()), "--output-dir="+dir, rules)
}

func (f *Fleet) promtool(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(f.programs.Prometheus, "promtool"), args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}
