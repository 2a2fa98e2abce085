package expected

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/metric"
)

const gauge = prometheus.GaugeValue

var (
	boardInfo = metric.Metric{
		Family: "Expected boards", Name: "gpuledger_expected_board_info", Type: gauge,
		Labels: []string{"node", "serial", "chassis_slot", "pci_bus_id"},
		Help:   "Board in the expected inventory, with its place. Requires `--expected-inventory`.",
	}
	errorCount = metric.Metric{
		Family: "Expected boards", Name: "gpuledger_expected_inventory_errors", Type: gauge,
		Help: "Invalid lines and files in the expected inventory; the log contains the reasons. Requires `--expected-inventory`.",
	}
)

// Catalogue returns every metric of this package.
func Catalogue() []metric.Metric { return []metric.Metric{boardInfo, errorCount} }

// Labels returns every label of the catalogue's metrics.
func Labels() []metric.Label {
	return []metric.Label{
		{Name: "node", Help: "Name of the Node in the list."},
		{Name: "serial", Help: "Serial number of the board."},
		{Name: "chassis_slot", Help: "Slot in the chassis; empty if the list omits it."},
		{Name: "pci_bus_id", Help: "PCI address in the driver's format; empty if the list omits it."},
	}
}

const interval = 30 * time.Second

// Inventory is the expected inventory in a file, or in the .csv files of a directory.
type Inventory struct {
	path   string
	log    *slog.Logger
	boards *prometheus.Desc
	errors *prometheus.Desc
	latest atomic.Pointer[state]
}

type state struct {
	boards []Board
	nodes  map[string]bool // nodes that have a board in the list
	errs   []error
}

// New returns an Inventory that has not been read yet.
func New(path string, log *slog.Logger) *Inventory {
	boardInfo.MustHave(Board{}.labels()...)
	return &Inventory{path: path, log: log, boards: boardInfo.NewDesc(), errors: errorCount.NewDesc()}
}

// Run reads the list periodically until the context ends. If the list is unreadable, the previous list remains valid.
func (i *Inventory) Run(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		i.read()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// read logs a message if the content of the list or the errors have changed.
func (i *Inventory) read() {
	was := i.latest.Load()
	if was == nil {
		was = &state{}
	}
	now := &state{}
	boards, readable, errs := load(i.path)
	now.boards, now.errs = boards, errs
	if !readable {
		now.boards = was.boards
	}
	if err := errors.Join(now.errs...); err != nil && err.Error() != message(was) {
		log := i.log.With("path", i.path, "errors", len(now.errs), "err", summary(now.errs))
		if readable {
			log.Error("ignoring invalid lines of the expected inventory")
		} else {
			log.Error("cannot read the expected inventory, keeping the inventory that was read last")
		}
	}
	if !slices.Equal(was.boards, now.boards) {
		i.log.Info("read the expected inventory", "path", i.path, "boards", len(now.boards))
	}
	now.nodes = make(map[string]bool)
	for _, b := range now.boards {
		now.nodes[b.Node] = true
	}
	i.latest.Store(now)
}

// Lists reports whether the list contains a board for a Node.
func (i *Inventory) Lists(node string) bool {
	s := i.latest.Load()
	return s != nil && s.nodes[node]
}

func message(s *state) string {
	if err := errors.Join(s.errs...); err != nil {
		return err.Error()
	}
	return ""
}

// most is the maximum number of errors in one log line.
const most = 10

func summary(errs []error) error {
	var words []string
	for _, err := range errs[:min(len(errs), most)] {
		words = append(words, err.Error())
	}
	if more := len(errs) - most; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(words, "; "))
}

// load rejects the whole list if it cannot read a file completely. Otherwise the boards in the missing part would count
// as unexpected.
func load(path string) (boards []Board, readable bool, errs []error) {
	names, err := files(path)
	if err != nil {
		return nil, false, []error{err}
	}
	readable = true
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			readable = false
			errs = append(errs, err) // the error names the file
			continue
		}
		more, wrong, err := Parse(text)
		if err != nil {
			readable = false
			wrong = []error{err}
		}
		boards = append(boards, more...)
		for _, err := range wrong {
			errs = append(errs, fmt.Errorf("%s: %w", filepath.Base(name), err))
		}
	}
	boards, conflicts := unique(boards)
	return boards, readable, append(errs, conflicts...)
}

func files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	names, err := filepath.Glob(filepath.Join(path, "*.csv"))
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%s: no .csv file", path)
	}
	return names, err
}

// unique sorts the boards and removes duplicates, because a list of GPUs has a line for each GPU on a board. If the
// lines of a board contain different nodes or slots, unique omits the board and returns an error.
func unique(boards []Board) ([]Board, []error) {
	first := make(map[string]Board) // boards by serial number
	torn := make(map[string]bool)
	var errs []error
	for _, b := range boards {
		f, ok := first[b.Serial]
		if ok && !torn[b.Serial] && f.contradicts(b) {
			torn[b.Serial] = true
			errs = append(errs, fmt.Errorf("serial %q is listed in two places, %s and %s: remove one of these lines", b.Serial, f.place(), b.place()))
		}
		if !ok || f.ChassisSlot == "" {
			first[b.Serial] = b
		}
	}
	boards = slices.DeleteFunc(boards, func(b Board) bool { return torn[b.Serial] })
	slices.SortFunc(boards, Board.compare)
	return slices.Compact(boards), errs
}

func (b Board) contradicts(o Board) bool {
	return b.Node != o.Node || b.ChassisSlot != o.ChassisSlot && b.ChassisSlot != "" && o.ChassisSlot != ""
}

func (b Board) place() string {
	if b.ChassisSlot == "" {
		return b.Node
	}
	return b.Node + " slot " + b.ChassisSlot
}

func (b Board) compare(o Board) int {
	return slices.Compare(b.labels(), o.labels())
}

func (b Board) labels() []string {
	return []string{"node", b.Node, "serial", b.Serial, "chassis_slot", b.ChassisSlot, "pci_bus_id", b.PCIBusID}
}

// Describe implements [prometheus.Collector].
func (i *Inventory) Describe(ch chan<- *prometheus.Desc) {
	ch <- i.boards
	ch <- i.errors
}

// Collect implements [prometheus.Collector].
func (i *Inventory) Collect(ch chan<- prometheus.Metric) {
	s := i.latest.Load()
	if s == nil {
		return
	}
	for _, b := range s.boards {
		ch <- boardInfo.Constant(i.boards, 1, b.labels()...)
	}
	ch <- errorCount.Constant(i.errors, float64(len(s.errs)))
}
