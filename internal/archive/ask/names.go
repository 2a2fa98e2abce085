package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/factors"
	"github.com/gpuledger/gpuledger/internal/archive/print"
)

// UnknownError means that the source contains no board, node or chassis with this name.
type UnknownError struct {
	Name string
	// Similar contains names that begin with the unknown name, or serial numbers that differ from the unknown name in
	// few characters. More is the number of further names that begin with the unknown name.
	Similar []string
	More    int
	Source  string
	Since   time.Time
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%s has no board, node or chassis %q since %s: %s", e.Source, e.Name, e.Since.Format(time.DateOnly), e.advice())
}

func (e *UnknownError) advice() string {
	names := strings.Join(e.Similar, ", ")
	switch {
	case e.More > 0:
		return fmt.Sprintf("did you mean %s, or one of %d more names that begin with %q?", names, e.More, e.Name)
	case names != "":
		return "did you mean " + names + "?"
	}
	return "check the name, or set --since"
}

// standardInput, as an argument or as a value of --names, makes the command read the names from standard input.
const standardInput = "-"

func (c *command) checkNames(o *options, arguments []string) error {
	switch {
	case len(arguments) > 0 && c.argument == "":
		return fmt.Errorf("unexpected argument %q: %s takes flags only", arguments[0], c.name)
	case len(arguments) > 1 && !c.several:
		return fmt.Errorf("unexpected argument %q: %s takes one name", arguments[1], c.name)
	case len(arguments) == 0 && o.list == "" && c.argument != "" && !c.optional:
		return fmt.Errorf("%s needs %s", c.name, c.argument)
	case o.column != "" && o.list == "" && !slices.Contains(arguments, standardInput):
		return errors.New("--names.column needs --names, or the argument -")
	}
	return nil
}

// takeNames sets the names of a question. The arguments come first, followed by the names in --names.
func (c *command) takeNames(o *options, arguments []string, in io.Reader) error {
	if err := c.checkNames(o, arguments); err != nil {
		return err
	}
	for _, name := range arguments {
		if name != standardInput || !c.several {
			o.names = append(o.names, name)
		} else if err := o.addNames(name, in); err != nil {
			return err
		}
	}
	if o.list == "" {
		return nil
	}
	return o.addNames(o.list, in)
}

func (o *options) addNames(path string, in io.Reader) error {
	if path != standardInput {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("--names: %w", err)
		}
		defer file.Close()
		in = file
	}
	names, err := factors.ReadNames(in, o.column)
	if err != nil {
		return fmt.Errorf("--names=%s: %w", path, err)
	}
	o.names = append(o.names, names...)
	return nil
}

// named is a name in the question, with its boards.
type named struct {
	name string // as the user wrote it
	// value is the serial number if the name is an asset tag, and the name otherwise. kind is serial, uuid, node or
	// chassis.
	value, kind string
	uuids       []string      // sorted
	unknown     *UnknownError // nil for a known name
	asset       factors.Asset // asset with the unknown name, from the list of assets
}

// find returns the boards of each name in the question, and notices about ambiguous names. It returns an error if the
// only name is unknown, and nil if the question has no names.
func (q *question) find(ctx context.Context, of books.Query) (all []named, notices []string, err error) {
	if len(q.names) == 0 {
		return nil, nil, nil
	}
	for _, name := range q.names {
		all = append(all, named{name: name, value: cmp.Or(q.assets.SerialOf(name), name)})
	}
	if len(all) == 1 {
		of.Named = all[0].value
	}
	boards, err := q.source.Boards(ctx, of)
	if err != nil {
		return nil, nil, err
	}
	byName := boardsByName(boards)
	failed := 0
	for i := range all {
		n := &all[i]
		if notice := n.set(byName[n.value]); notice != "" {
			notices = append(notices, notice)
		}
		if len(n.uuids) > 0 {
			continue
		}
		if of.Named != "" {
			of.Named = ""
			if boards, err = q.source.Boards(ctx, of); err != nil {
				return nil, nil, err
			}
		}
		q.setUnknown(n, boards, of)
		if len(all) == 1 {
			return nil, nil, n.unknown
		}
		q.failed = true
		if failed++; failed <= maxUnknown {
			notices = append(notices, fmt.Sprintf("%q is unknown: %s", n.name, n.unknown.advice()))
		}
	}
	if failed > maxUnknown {
		notices = append(notices, fmt.Sprintf("and %d more names are unknown", failed-maxUnknown))
	}
	return all, notices, nil
}

// The map contains each board several times: by serial number, UUID, node and chassis.
func boardsByName(boards []books.Board) map[string][]books.Board {
	all := make(map[string][]books.Board)
	for _, b := range boards {
		for _, name := range []string{b.Serial, b.UUID, b.Node, b.ChassisSerial} {
			if of := all[name]; name != "" && (len(of) == 0 || of[len(of)-1] != b) {
				all[name] = append(of, b)
			}
		}
	}
	return all
}

const maxUnknown = 10

func (n *named) set(found []books.Board) (notice string) {
	kinds, clusters := make(map[string]bool), make(map[string]bool)
	for _, b := range found {
		for _, k := range b.Is(n.value) {
			kinds[k] = true
		}
		clusters[b.Cluster] = true
		n.uuids = append(n.uuids, b.UUID)
	}
	if len(found) == 0 {
		return ""
	}
	slices.Sort(n.uuids)
	n.uuids = slices.Compact(n.uuids)
	all := slices.Sorted(maps.Keys(kinds))
	n.kind = all[len(all)-1] // a node takes precedence over a chassis, and a serial number over a node
	switch {
	case len(all) > 1:
		return fmt.Sprintf("%s is the name of a %s: all its boards are listed", n.name, strings.Join(all, " and of a "))
	case n.kind == "node" && len(clusters) > 1:
		return fmt.Sprintf("%s is a node in the clusters %s: select one of the clusters with --of-cluster", n.name, strings.Join(slices.Sorted(maps.Keys(clusters)), ", "))
	}
	return ""
}

// maxPrefixed is the maximum number of suggested names that begin with an unknown name.
const maxPrefixed = 5

func (q *question) setUnknown(n *named, boards []books.Board, of books.Query) {
	if q.limited { // an asset outside the reader's scope must stay hidden
		n.value = n.name
	} else {
		n.asset = q.assets.Of(n.value)
	}
	n.unknown = q.unknown(n.value, boards, of)
}

func (q *question) unknown(name string, boards []books.Board, of books.Query) *UnknownError {
	e := &UnknownError{Name: name, Source: q.source.Name(), Since: of.From}
	serials, prefixed := make(map[string]bool), make(map[string]bool)
	for _, b := range boards {
		for _, known := range []string{b.Serial, b.UUID, b.Node, b.ChassisSerial} {
			if len(known) > len(name) && strings.EqualFold(known[:len(name)], name) {
				prefixed[known] = true
			}
		}
		serials[b.Serial] = true
	}
	delete(serials, "")
	if e.Similar = slices.Sorted(maps.Keys(prefixed)); len(e.Similar) == 0 {
		e.Similar = closest(name, slices.Sorted(maps.Keys(serials)))
	}
	e.More = max(len(e.Similar)-maxPrefixed, 0)
	e.Similar = e.Similar[:len(e.Similar)-e.More]
	return e
}

func uuids(of []named) (all []string) {
	for _, n := range of {
		all = append(all, n.uuids...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (q *question) titled(a print.Answer) print.Answer {
	if len(q.names) > 1 {
		a.Columns[0].Title = "NAME"
	}
	return a
}

// distinct shows the UUIDs if rows with the same serial number and PCI address are about different GPUs. A board may
// have two GPUs.
func distinct(a print.Answer) print.Answer {
	column := func(name string) int {
		return slices.IndexFunc(a.Columns, func(c print.Column) bool { return c.Name == name })
	}
	serial, uuid, address := column("serial"), column("uuid"), column("pci_bus_id")
	if serial < 0 || uuid < 0 {
		return a
	}
	known := make(map[[2]any]any)
	for _, row := range a.Rows {
		key := [2]any{row[serial], ""}
		if address >= 0 {
			key[1] = row[address]
		}
		if other, found := known[key]; found && other != row[uuid] {
			a.Columns = slices.Clone(a.Columns)
			a.Columns[uuid].Title = "UUID"
			return a
		}
		known[key] = row[uuid]
	}
	return a
}
