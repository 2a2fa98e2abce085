package expected_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/reconciler/expected"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		text string
		want []expected.Board
		errs []string // expected errors about lines, or the expected error about the whole list
	}{
		{"nothing", "", nil, []string{"the list is empty"}},
		{"no boards", "node,serial\n", nil, nil},
		{"the least", "node,serial\ngpu-001,1652923000017\n", []expected.Board{{Node: "gpu-001", Serial: "1652923000017"}}, nil},
		{
			"an export from an asset database",
			"\ufeffAsset Tag,Serial,Node,Bought,PCI_Bus_Id\r\nA-17, 1652923000017 ,gpu-001,2026-03-01,0000:1b:00.0\r\n\r\n,,,,\r\n",
			[]expected.Board{{Node: "gpu-001", Serial: "1652923000017", PCIBusID: "00000000:1B:00.0"}},
			nil,
		},
		{"a slot", "node,serial,chassis_slot\ngpu-001,S1,15\n", []expected.Board{{Node: "gpu-001", Serial: "S1", ChassisSlot: "15"}}, nil},
		{"a comment", "# rack 7\nnode,serial\n# spare\ngpu-001,S1\n", []expected.Board{{Node: "gpu-001", Serial: "S1"}}, nil},
		{"an address as the driver prints it", "node,serial,pci_bus_id\ng,S1,00000008:01:00.0\n", []expected.Board{{Node: "g", Serial: "S1", PCIBusID: "00000008:01:00.0"}}, nil},
		{"an address as lspci prints it", "node,serial,pci_bus_id\ng,S1,1b:00.0\n", []expected.Board{{Node: "g", Serial: "S1", PCIBusID: "00000000:1B:00.0"}}, nil},
		{"semicolons", "node;serial\ngpu-001;S1\n", nil, []string{`line 1: no column "node"; must be node,serial`}},
		{"no column names", "gpu-001,S1\n", nil, []string{`line 1: no column "node"`}},
		{"two other columns with the same name", "node,tag,serial,tag\ng,A,S1,B\n", []expected.Board{{Node: "g", Serial: "S1"}}, nil},
		{
			"values that are invalid as labels", "node,serial,chassis_slot\ng\tx,S1,1\ng,S2,1\t2\ng,S\xff,1\ng," + strings.Repeat("s", 257) + ",1\ng,S4,1\n",
			[]expected.Board{{Node: "g", Serial: "S4", ChassisSlot: "1"}},
			[]string{"line 2: a value is too long", "line 3: a value is too long", "line 4: a value is too long", "line 5: a value is too long"},
		},
		{"two required columns with the same name", "node,serial,Node\n", nil, []string{`line 1: two columns "node"`}},
		{
			"invalid and valid lines",
			"node,serial,pci_bus_id\ngpu-001,S1\ngpu-001\n,S3\ngpu-001,1.65292E+12\ngpu-001,S5,slot 4\ngpu-001,a\tb\ngpu-001,S7\n",
			[]expected.Board{{Node: "gpu-001", Serial: "S1"}, {Node: "gpu-001", Serial: "S7"}},
			[]string{"line 3: the column serial is empty", "line 4: the column node is empty", "line 5: serial \"1.65292E+12\" is a number rounded by a spreadsheet", "line 6: pci_bus_id \"slot 4\"", "line 7: a value is too long"},
		},
		{"a quote that does not end", "node,serial\ngpu-001,S1\ngpu-001,\"S2\ngpu-001,S3\n", nil, []string{"record on line 3"}},
		{"a quote that ends too late", "node,serial\ngpu-001,S1\ngpu-001,\"S2\ngpu-001,S3\"\ngpu-001,S4\n", nil, []string{"line 3: a value spans several lines"}},
		{"a remark that spans two lines", "node,serial,remark\ngpu-001,S1,\"a\nb\"\n", []expected.Board{{Node: "gpu-001", Serial: "S1"}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, errs, err := expected.Parse([]byte(tt.text))
			if err != nil {
				errs = append(errs, err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("boards (-want +got):\n%s", diff)
			}
			if len(errs) != len(tt.errs) {
				t.Fatalf("errors %q, want %q", errs, tt.errs)
			}
			for i, want := range tt.errs {
				if !strings.HasPrefix(errs[i].Error(), want) {
					t.Errorf("error %q, want %q", errs[i], want)
				}
			}
		})
	}
}

// FuzzParse checks the result for any file. Nodes and serial numbers must be valid label values. Each line with a value
// must result in a board or an error.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"node,serial,chassis_slot,pci_bus_id\ngpu-001,S1,15,0000:1b:00.0\n", "node;serial\n", "\ufeffserial,node\r\n\"a\nb\",c\r\n", "node,serial\n\xff,\x00\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		boards, wrong, refused := expected.Parse(text)
		if refused != nil && len(boards)+len(wrong) > 0 {
			t.Errorf("the list is rejected (%v), but there are %d boards and %d errors", refused, len(boards), len(wrong))
		}
		for _, b := range boards {
			for _, value := range []string{b.Node, b.Serial, b.ChassisSlot, b.PCIBusID} {
				if len(value) > 256 || strings.ToValidUTF8(value, "") != value || strings.ContainsAny(value, "\n\r\x00") || strings.TrimSpace(value) != value {
					t.Errorf("%q is not a valid label value", value)
				}
			}
			if b.Node == "" || b.Serial == "" {
				t.Errorf("%+v has no node or no serial number", b)
			}
		}
		again, more, err := expected.Parse(text)
		if diff := cmp.Diff(boards, again); diff != "" || len(more) != len(wrong) || (err == nil) != (refused == nil) {
			t.Errorf("read twice (-first +second): %s", diff)
		}
	})
}
