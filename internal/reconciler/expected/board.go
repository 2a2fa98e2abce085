package expected

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Board is one line of the list.
type Board struct {
	Node   string
	Serial string
	// ChassisSlot and PCIBusID are where in the node it should be, as gpuledger_gpu_info
	// spells them; empty where the list does not say.
	ChassisSlot string
	PCIBusID    string
}

// The columns, which the first line names. Others are passed over: the list is an
// export of whatever the site keeps its assets in.
const (
	columnNode   = "node"
	columnSerial = "serial"
	columnSlot   = "chassis_slot"
	columnPCI    = "pci_bus_id"
)

var (
	// pciAddress is domain, bus, device and function as Linux and the driver print them.
	pciAddress = regexp.MustCompile(`^(?:([0-9A-Fa-f]{4}|[0-9A-Fa-f]{8}):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])$`)
	// exponent is what a spreadsheet makes of a long number.
	exponent = regexp.MustCompile(`^[0-9]+([.,][0-9]+)?[eE]\+?[0-9]+$`)
)

// Parse reads a list: comma-separated, with the columns named in the first line. It
// returns what can be used, and an error for each line that cannot, by its number. A
// list of which it is not known what is missing is refused as a whole, with err: one
// without a line or without the columns it needs, or one in which a quotation mark
// that does not end hides the lines behind it.
func Parse(text []byte) (boards []Board, wrong []error, err error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	r.Comment, r.TrimLeadingSpace, r.FieldsPerRecord, r.ReuseRecord = '#', true, -1, true
	head, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil, errors.New("it is empty; want at least the line node,serial")
	}
	if err != nil {
		return nil, nil, err
	}
	columns, err := columnsOf(head)
	if err != nil {
		return nil, nil, err
	}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return boards, wrong, nil
		}
		if err != nil {
			return nil, nil, err // names the line
		}
		if blank(record) {
			continue
		}
		line, _ := r.FieldPos(0)
		b, err := columns.board(record)
		switch {
		case errors.Is(err, errLines):
			return nil, nil, fmt.Errorf("line %d: %w", line, err)
		case err != nil:
			wrong = append(wrong, fmt.Errorf("line %d: %w", line, err))
		default:
			boards = append(boards, b)
		}
	}
}

// errLines is a quoted value that goes over several lines.
var errLines = errors.New("a value of several lines: does its quotation mark end too late?")

func blank(record []string) bool {
	return !slices.ContainsFunc(record, func(f string) bool { return strings.TrimSpace(f) != "" })
}

// columns says at which position each known column is.
type columns map[string]int

func columnsOf(head []string) (columns, error) {
	c := make(columns)
	for i, name := range head {
		name = strings.ToLower(strings.TrimSpace(name))
		if !slices.Contains([]string{columnNode, columnSerial, columnSlot, columnPCI}, name) {
			continue
		}
		if _, twice := c[name]; twice {
			return nil, fmt.Errorf("line 1: two columns %q", name)
		}
		c[name] = i
	}
	for _, name := range []string{columnNode, columnSerial} {
		if _, ok := c[name]; !ok {
			return nil, fmt.Errorf("line 1: no column %q; want node,serial and, if known, chassis_slot,pci_bus_id with commas between", name)
		}
	}
	return c, nil
}

func (c columns) field(record []string, name string) string {
	if i, ok := c[name]; ok && i < len(record) {
		return strings.TrimSpace(record[i])
	}
	return ""
}

// board reads one line.
func (c columns) board(record []string) (Board, error) {
	b := Board{
		Node: c.field(record, columnNode), Serial: c.field(record, columnSerial),
		ChassisSlot: c.field(record, columnSlot), PCIBusID: c.field(record, columnPCI),
	}
	switch {
	case strings.Contains(b.Node+b.Serial+b.ChassisSlot+b.PCIBusID, "\n"):
		return Board{}, errLines
	case !plain(b.Node) || !plain(b.Serial) || !plain(b.ChassisSlot):
		return Board{}, fmt.Errorf("more than a short word in one of %.64q, %.64q, %.64q", b.Node, b.Serial, b.ChassisSlot)
	case b.Node == "":
		return Board{}, errors.New("no node")
	case b.Serial == "":
		return Board{}, errors.New("no serial")
	case exponent.MatchString(b.Serial):
		return Board{}, fmt.Errorf("serial %q is what a spreadsheet made of a number; export the column as text", b.Serial)
	}
	var err error
	b.PCIBusID, err = busID(b.PCIBusID)
	return b, err
}

// longest is how long a value may be, in bytes, as it is for labels.
const longest = 256

// plain reports whether a value can be a word of an asset list: printable, one line.
func plain(value string) bool {
	return len(value) <= longest && utf8.ValidString(value) &&
		!strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) })
}

// busID spells a PCI address as the driver does: 00000000:1B:00.0.
func busID(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	m := pciAddress.FindStringSubmatch(s)
	if m == nil {
		return "", fmt.Errorf("pci_bus_id %.64q is no PCI address such as 0000:1b:00.0", s)
	}
	domain, err := strconv.ParseUint("0"+m[1], 16, 32)
	if err != nil {
		return "", fmt.Errorf("pci_bus_id %.64q: %w", s, err)
	}
	return fmt.Sprintf("%08X:%s:%s.%s", domain, strings.ToUpper(m[2]), strings.ToUpper(m[3]), m[4]), nil
}
