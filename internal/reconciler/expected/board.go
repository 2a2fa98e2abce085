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

// Board is one line of the expected inventory.
type Board struct {
	Node   string
	Serial string
	// ChassisSlot and PCIBusID are in the format of gpuledger_gpu_info, or empty if the list omits them.
	ChassisSlot string
	PCIBusID    string
}

// These are the columns that the first line of the list can name. Other columns are ignored, because the list may be an
// export from any asset database.
const (
	columnNode   = "node"
	columnSerial = "serial"
	columnSlot   = "chassis_slot"
	columnPCI    = "pci_bus_id"
)

var (
	// pciAddress matches a PCI address (domain, bus, device and function) as Linux and the driver print it.
	pciAddress = regexp.MustCompile(`^(?:([0-9A-Fa-f]{4}|[0-9A-Fa-f]{8}):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])$`)
	// exponent matches a long number that a spreadsheet has rounded, such as 1.32E+12.
	exponent = regexp.MustCompile(`^[0-9]+([.,][0-9]+)?[eE]\+?[0-9]+$`)
)

// Parse reads a comma-separated list whose first line names the columns. wrong contains an error with the line number
// for each invalid line. If the list is empty, a required column is missing, or a quotation mark is not closed, the
// number of unreadable lines is unknown. Then Parse rejects the whole list and returns err.
func Parse(text []byte) (boards []Board, wrong []error, err error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	r.Comment, r.TrimLeadingSpace, r.FieldsPerRecord, r.ReuseRecord = '#', true, -1, true
	head, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil, errors.New("the list is empty; it must have at least the line node,serial")
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
			return nil, nil, err // the error names the line
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

// errLines is the error for a quoted value that spans several lines.
var errLines = errors.New("a value spans several lines; check its closing quotation mark")

func blank(record []string) bool {
	return !slices.ContainsFunc(record, func(f string) bool { return strings.TrimSpace(f) != "" })
}

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
			return nil, fmt.Errorf("line 1: no column %q; must be node,serial and optionally chassis_slot,pci_bus_id, separated by commas", name)
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

func (c columns) board(record []string) (Board, error) {
	b := Board{
		Node: c.field(record, columnNode), Serial: c.field(record, columnSerial),
		ChassisSlot: c.field(record, columnSlot), PCIBusID: c.field(record, columnPCI),
	}
	switch {
	case strings.Contains(b.Node+b.Serial+b.ChassisSlot+b.PCIBusID, "\n"):
		return Board{}, errLines
	case !plain(b.Node) || !plain(b.Serial) || !plain(b.ChassisSlot):
		return Board{}, fmt.Errorf("a value is too long or not printable in %.64q, %.64q, %.64q", b.Node, b.Serial, b.ChassisSlot)
	case b.Node == "":
		return Board{}, errors.New("the column node is empty")
	case b.Serial == "":
		return Board{}, errors.New("the column serial is empty")
	case exponent.MatchString(b.Serial):
		return Board{}, fmt.Errorf("serial %q is a number rounded by a spreadsheet; export the column as text", b.Serial)
	}
	var err error
	b.PCIBusID, err = busID(b.PCIBusID)
	return b, err
}

// longest is the maximum size of a value in bytes. Labels have the same limit.
const longest = 256

func plain(value string) bool {
	return len(value) <= longest && utf8.ValidString(value) &&
		!strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) })
}

// busID formats a PCI address like the driver: 00000000:1B:00.0.
func busID(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	m := pciAddress.FindStringSubmatch(s)
	if m == nil {
		return "", fmt.Errorf("pci_bus_id %.64q is not a PCI address such as 0000:1b:00.0", s)
	}
	domain, err := strconv.ParseUint("0"+m[1], 16, 32)
	if err != nil {
		return "", fmt.Errorf("pci_bus_id %.64q: %w", s, err)
	}
	return fmt.Sprintf("%08X:%s:%s.%s", domain, strings.ToUpper(m[2]), strings.ToUpper(m[3]), m[4]), nil
}
