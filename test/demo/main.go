// Demo runs a simulated fleet for demonstrations: four nodes in two clusters, a Prometheus and the archive. The
// Prometheus has the rules in dashboards/rules, and a history of up to two months. While the demo runs, it moves a
// board.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gpuledger/gpuledger/test/fleet"
	"github.com/gpuledger/gpuledger/test/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var d demo
	d.programs.Flags()
	flag.StringVar(&d.listen, "listen", "127.0.0.1:9090", "`address` of the Prometheus of all clusters")
	flag.StringVar(&d.rules, "rules", "dashboards/rules/*.yaml", "glob `pattern` of the rule files")
	flag.DurationVar(&d.scrape, "scrape", 5*time.Second, "scrape `interval`")
	flag.DurationVar(&d.move, "move", time.Minute, "`time` after which a board is moved")
	flag.Parse()
	if err := d.run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

type demo struct {
	programs      fleet.Programs
	listen, rules string
	scrape, move  time.Duration

	fleet  *fleet.Fleet
	nodes  []fleet.Node // boards can move between the first two nodes
	booted []*program.Program

	archive string // folder with the archive's files
	config  string // configuration file of gpuledger-archive
	pages   string // address of the web pages
}

// run waits until it is interrupted or a node ends.
func (d *demo) run(ctx context.Context) (err error) {
	if d.rules, err = filepath.Abs(d.rules); err != nil {
		return err
	}
	if err := free(d.listen); err != nil {
		return err
	}
	if d.fleet, err = fleet.Open(d.programs); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.fleet.Close()) }()
	if err := d.start(ctx); err != nil {
		return err
	}
	d.greet(os.Stdout)
	if err := wait(ctx, d.move); err != nil {
		return err
	}
	if err := d.moveBoard(ctx); err != nil {
		return err
	}
	return d.watch(ctx)
}

// free checks that no server listens on an address. Such a server would respond in place of the demo's Prometheus.
func free(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--listen: %w: choose another address", err)
	}
	return l.Close()
}

func wait(ctx context.Context, t time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(t):
		return nil
	}
}

func (d *demo) start(ctx context.Context) (err error) {
	for _, n := range world() {
		d.nodes = append(d.nodes, n.Node)
	}
	booted := time.Now()
	if d.booted, err = d.fleet.BootAll(ctx, d.nodes); err != nil {
		return err
	}
	fmt.Println("demo: simulates the books of the last full month and of this month")
	if err := d.load(ctx, "prometheus", booted); err != nil {
		return err
	}
	owners, err := d.owners()
	if err != nil {
		return err
	}
	archive, err := program.FreeAddress()
	if err != nil {
		return err
	}
	server := fleet.Prometheus{
		Name: "prometheus", Address: d.listen, Nodes: d.nodes, Archive: archive, Scrape: d.scrape, Rules: []string{d.rules, owners},
		Flags: []string{"--storage.tsdb.retention.time=100y"},
	}
	if _, err := d.fleet.StartPrometheus(ctx, server); err != nil {
		return err
	}
	if d.config, err = d.settings(server.URL()); err != nil {
		return err
	}
	return d.startArchive(ctx, server.URL(), archive)
}

// The archive writes to a folder of the fleet.
func (d *demo) startArchive(ctx context.Context, store, address string) error {
	d.archive = d.fleet.Path("archive")
	p, err := d.fleet.Start("archive", filepath.Join(d.programs.Bin, "gpuledger-archive"), "run",
		"--store.url="+store, "--folder="+d.archive, "--folder.format=csv,parquet", "--web.listen-address="+address)
	if err != nil {
		return err
	}
	if err := p.Ready(ctx, "http://"+address+"/metrics"); err != nil {
		return err
	}
	return d.servePages(ctx)
}

// servePages starts the web pages about the data in Prometheus. The pages begin with the previous month.
func (d *demo) servePages(ctx context.Context) (err error) {
	if d.pages, err = program.FreeAddress(); err != nil {
		return err
	}
	p, err := d.fleet.Start("pages", filepath.Join(d.programs.Bin, "gpuledger-archive"), "serve", "--web.pages.config="+d.config, "--web.listen-address="+d.pages)
	if err != nil {
		return err
	}
	return p.Ready(ctx, "http://"+d.pages+"/metrics")
}

func (d *demo) moveBoard(ctx context.Context) error {
	from, err := d.nodes[0].Simulated()
	if err != nil {
		return err
	}
	to, err := d.nodes[1].Simulated()
	if err != nil {
		return err
	}
	if err := d.fleet.MoveBoard(ctx, d.nodes, d.booted); err != nil {
		return err
	}
	fmt.Printf("%s: board %s was moved from %s to %s, and %s got a new one\n",
		time.Now().Format(time.TimeOnly), from.GPUs[0].Serial, from.Node, to.Node, from.Node)
	return nil
}

// watch waits until a node ends or the context is cancelled.
func (d *demo) watch(ctx context.Context) error {
	ended := make(chan string, len(d.booted))
	for _, p := range d.booted {
		go func() {
			<-p.Ended()
			ended <- p.Name + " ended unexpectedly:\n" + p.Tail()
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case what := <-ended:
		return errors.New(what)
	}
}
