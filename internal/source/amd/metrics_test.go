package amd

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

var update = flag.Bool("update", false, "write the golden blobs")

type place struct {
	at, width int
	n         uint64
}

// build sets all bits outside the given places, which means that all other values are missing.
func build(format, content uint8, size int, places ...place) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = 0xff
	}
	put(b, place{0, 2, uint64(size)}, place{2, 1, uint64(format)}, place{3, 1, uint64(content)})
	put(b, places...)
	return b
}

func put(b []byte, places ...place) {
	for _, p := range places {
		switch p.width {
		case 1:
			b[p.at] = byte(p.n)
		case 2:
			binary.LittleEndian.PutUint16(b[p.at:], uint16(p.n))
		case 4:
			binary.LittleEndian.PutUint32(b[p.at:], uint32(p.n))
		case 8:
			binary.LittleEndian.PutUint64(b[p.at:], p.n)
		}
	}
}

// attributes returns a blob of revision 1.9.
func attributes(list ...attributeValue) []byte {
	b := make([]byte, 8)
	for _, a := range list {
		b = binary.LittleEndian.AppendUint64(b, 0x0a<<24|a.kind<<20|a.id<<10|uint64(len(a.values)))
		for _, v := range a.values {
			value := make([]byte, 8)
			binary.LittleEndian.PutUint64(value, v)
			b = append(b, value[:1<<(a.kind/2)]...)
		}
	}
	put(b, place{0, 2, uint64(len(b))}, place{2, 1, 1}, place{3, 1, 9}, place{4, 4, uint64(len(list))})
	return b
}

type attributeValue struct {
	kind, id uint64
	values   []uint64
}

func is(n uint64) value { return value{n, true} }

// board contains values at the offsets that are the same since revision 1.4.
var board = []place{{4, 2, 61}, {10, 2, 713}, {12, 2, 87}}

// goldens contains a blob for each known revision and for each special value. The offsets come from the public
// definitions in Linux.
var goldens = map[string]struct {
	blob []byte
	want metrics
}{
	"1.0": {
		build(1, 0, 80, place{16, 2, 52}, place{18, 2, 61}, place{28, 2, 87}, place{34, 2, 290}, place{36, 4, 4711}, place{54, 2, 1502}, place{58, 2, 1200}),
		metrics{edge: is(52), hotspot: is(61), activity: is(87), power: is(290), clock: is(1502), memory: is(1200)},
	},
	"1.1": {build(1, 1, 96, discreteBoard...), discreteWant},
	"1.2": {build(1, 2, 104, append([]place{{96, 8, 77}}, discreteBoard...)...), discreteWant},
	"1.3": {build(1, 3, 120, append([]place{{96, 8, 77}, {104, 2, 800}}, discreteBoard...)...), discreteWant},
	"1.4": {
		build(1, 4, 288, append([]place{{24, 8, 1 << 45}, {32, 8, 99}, {56, 4, 870_000}, {60, 4, 5}, {240, 2, 2100}, {280, 2, 1300}}, board...)...),
		metrics{hotspot: is(61), power: is(713), activity: is(87), energy: is(1 << 45), activitySum: is(870_000), clock: is(2100), memory: is(1300)},
	},
	"1.5": {
		build(1, 5, 360, append([]place{{56, 8, 5}, {88, 8, 1 << 45}, {96, 8, 99}, {120, 4, 870_000}, {312, 2, 2100}, {352, 2, 1300}}, board...)...),
		metrics{hotspot: is(61), power: is(713), activity: is(87), energy: is(1 << 45), activitySum: is(870_000), clock: is(2100), memory: is(1300)},
	},
	"1.6 of early drivers": {
		build(1, 6, 384, append([]place{{16, 8, 5}, {88, 8, 1 << 45}, {96, 8, 99}, {104, 4, 10_000}, {108, 4, 11}, {112, 4, 12}, {116, 4, 13}, {120, 4, 14}, {124, 4, 15}, {144, 4, 870_000}, {336, 2, 2100}, {376, 2, 1300}}, board...)...),
		metrics{hotspot: is(61), power: is(713), activity: is(87), energy: is(1 << 45), samples: is(10_000), limits: limited, activitySum: is(870_000), clock: is(2100), memory: is(1300)},
	},
	"1.6": {
		build(1, 6, 1664, append([]place{{16, 8, 1 << 45}, {24, 8, 99}, {32, 4, 10_000}, {36, 4, 11}, {40, 4, 12}, {44, 4, 13}, {48, 4, 14}, {52, 4, 15}, {68, 4, 870_000}, {264, 2, 2100}, {304, 2, 1300}, {312 + 104, 8, 44}, {312 + 168 + 104 + 8, 8, 45}}, board...)...),
		partitioned(metrics{hotspot: is(61), power: is(713), activity: is(87), energy: is(1 << 45), samples: is(10_000), limits: limited, activitySum: is(870_000), clock: is(2100), memory: is(1300)}),
	},
	"1.7": {
		build(1, 7, 2208, append([]place{{16, 8, 5300}, {24, 8, 1 << 45}, {32, 8, 99}, {40, 4, 10_000}, {44, 4, 11}, {48, 4, 12}, {52, 4, 13}, {56, 4, 14}, {60, 4, 15}, {76, 4, 870_000}, {296, 2, 2100}, {336, 2, 1300}, {344 + 104, 8, 44}, {344 + 232 + 104 + 8, 8, 45}}, board...)...),
		partitioned(metrics{hotspot: is(61), power: is(713), activity: is(87), energy: is(1 << 45), samples: is(10_000), limits: limited, activitySum: is(870_000), clock: is(2100), memory: is(1300)}),
	},
	"1.8": {
		build(1, 8, 3872, append([]place{{16, 8, 5300}, {24, 8, 1 << 45}, {32, 8, 99}, {40, 4, 10_000}, {44, 4, 11}, {48, 4, 12}, {52, 4, 13}, {56, 4, 14}, {60, 4, 15}, {76, 4, 870_000}, {296, 2, 2100}, {336, 2, 1300}, {344 + 120, 8, 44}, {344 + 440 + 120 + 8, 8, 45}}, board...)...),
		partitioned(metrics{hotspot: is(61), power: is(713), activity: is(87), energy: is(1 << 45), samples: is(10_000), limits: limited, activitySum: is(870_000), clock: is(2100), memory: is(1300)}),
	},
	"1.9": {
		attributes(attributeValue{2, 0, []uint64{61}}, attributeValue{2, 1, []uint64{55}}, attributeValue{2, 3, []uint64{713}},
			attributeValue{2, 4, []uint64{87}}, attributeValue{6, 7, []uint64{1 << 45}}, attributeValue{4, 9, []uint64{10_000}},
			attributeValue{4, 10, []uint64{11}}, attributeValue{4, 11, []uint64{12}}, attributeValue{4, 12, []uint64{13}}, attributeValue{6, 13, []uint64{14}}, attributeValue{6, 14, []uint64{15}},
			attributeValue{4, 20, []uint64{870_000}}, attributeValue{2, 33, []uint64{2100, 2101, 2102, 2103, 2104, 2105, 2106, 2107}},
			attributeValue{2, 37, []uint64{1300}}, attributeValue{6, 43, []uint64{1, 2, 3, 4, 5, 6, 7, 8}}),
		metrics{hotspot: is(61), power: is(713), activity: is(87), energy: is(1 << 45), samples: is(10_000), limits: limited, activitySum: is(870_000), clock: is(2100), memory: is(1300)},
	},
	"nothing reported":           {build(1, 7, 2208), metrics{}},
	"energy withdrawn":           {build(1, 3, 120, place{22, 2, 290}, place{24, 8, math.MaxUint32}), metrics{power: is(290)}},
	"second die":                 {build(1, 3, 120, place{16, 2, 0}, place{22, 2, 0}, place{24, 8, 0}), metrics{activity: is(0)}},
	"impossible":                 {build(1, 4, 288, place{4, 2, 6100}, place{12, 2, 101}), metrics{}},
	"1.9, nothing reported":      {attributes(attributeValue{2, 3, []uint64{0xffff}}, attributeValue{6, 7, []uint64{math.MaxUint64}}), metrics{}},
	"1.9, a value with a sign":   {attributes(attributeValue{7, 7, []uint64{1 << 45}}), metrics{}},
	"1.9, an unknown attribute":  {attributes(attributeValue{6, 99, []uint64{1, 2}}, attributeValue{2, 3, []uint64{713}}), metrics{power: is(713)}},
	"1.9, no attribute":          {attributes(), metrics{}},
	"1.9, an attribute of bytes": {attributes(attributeValue{0, 0, []uint64{61}}), metrics{hotspot: is(61)}},
}

// In revision 1.9, early drivers write the residencies with 32 bits, and later drivers with 64 bits.
var limited = [numLimits]value{is(11), is(12), is(13), is(14), is(15)}

var (
	discreteBoard = []place{
		{4, 2, 52}, {6, 2, 61}, {16, 2, 87}, {22, 2, 290}, {24, 8, 1 << 45}, {32, 8, 99}, {40, 2, 1500}, {54, 2, 1502}, {58, 2, 1200}, {80, 4, 870_000},
	}
	discreteWant = metrics{
		edge: is(52), hotspot: is(61), activity: is(87), power: is(290), energy: is(1 << 45), activitySum: is(870_000), clock: is(1502), memory: is(1200),
	}
)

func partitioned(m metrics) metrics {
	m.busy[0][0], m.busy[1][1] = is(44), is(45)
	return m
}

var unexported = cmp.AllowUnexported(metrics{}, value{})

// TestDecode also checks that the golden blobs have not changed.
func TestDecode(t *testing.T) {
	for name, tt := range goldens {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", "gpu_metrics", name+".bin")
			if *update {
				if err := os.WriteFile(path, tt.blob, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			blob, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.blob, blob); diff != "" {
				t.Errorf("the golden blob differs from the blob in the test (-test +golden):\n%s", diff)
			}
			got, err := decode(blob)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, unexported); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

// A file may be longer than the structure in it.
func TestDecodeLonger(t *testing.T) {
	got, err := decode(append(goldens["1.4"].blob, make([]byte, 100)...))
	if diff := cmp.Diff(goldens["1.4"].want, got, unexported); err != nil || diff != "" {
		t.Errorf("error %v, values (-want +got):\n%s", err, diff)
	}
}

// Each known revision must have a golden blob, and all fields of its layout must be inside the blob.
func TestEveryRevision(t *testing.T) {
	for rev, l := range layouts {
		if _, ok := goldens[fmt.Sprintf("%d.%d", rev.format, rev.content)]; !ok {
			t.Errorf("revision %v has no golden blob", rev)
		}
		for _, f := range []field{l.edge, l.hotspot, l.power, l.activity, l.energy, l.activitySum, l.samples, l.clock, l.memClock, l.limits[0], l.limits[4]} {
			if f.at+f.width > rev.size || f.width > 0 && (f.at < headerSize || f.at%f.width != 0) {
				t.Errorf("revision %v has field %v in %d bytes", rev, f, rev.size)
			}
		}
		if l.stride > 0 && l.partitions+maxPartitions*l.stride > rev.size {
			t.Errorf("revision %v has partitions beyond its end", rev)
		}
	}
}

func TestTorn(t *testing.T) {
	for name, tt := range goldens {
		for n := range tt.blob {
			if m, err := decode(tt.blob[:n]); err == nil || errors.Is(err, errUnknown) && n >= headerSize {
				t.Fatalf("%s: %d of %d bytes: %+v, error %v", name, n, len(tt.blob), m, err)
			}
		}
	}
}

// Unknown revisions, and known revisions with an unknown size, must be rejected.
func TestUnknown(t *testing.T) {
	tests := map[string][]byte{
		"a later content":                  build(1, 10, 4000),
		"a later format":                   build(4, 0, 120),
		"a processor":                      build(2, 4, 168),
		"a draft of 1.6":                   build(1, 6, 376),
		"all ones":                         build(0xff, 0xff, 0xffff),
		"all zeros":                        make([]byte, 120),
		"1.9 with a count that is too big": func() []byte { b := attributes(); put(b, place{4, 4, math.MaxUint32}); return b }(),
		"1.9 with a count that is too small": func() []byte {
			b := attributes(attributeValue{2, 3, []uint64{713}})
			put(b, place{4, 4, 0})
			return b
		}(),
		"1.9 with an unknown type":     attributes(attributeValue{8, 3, nil}),
		"1.9 without a value":          attributes(attributeValue{2, 3, nil}),
		"1.9 with a missing attribute": build(1, 9, 4),
	}
	for name, blob := range tests {
		if m, err := decode(blob); err == nil {
			t.Errorf("%s is decoded to %+v", name, m)
		}
	}
}

// TestMillijoules compares the conversion with exact arithmetic.
func TestMillijoules(t *testing.T) {
	for _, counter := range []uint64{0, 1, 65, 66, 65536, 1 << 45, math.MaxUint64 / 1000, math.MaxUint64 - 1, math.MaxUint64} {
		want := new(big.Int).SetUint64(counter)
		want.Div(want.Mul(want, big.NewInt(1000)), big.NewInt(65536))
		if got := millijoules(counter); want.Cmp(big.NewInt(int64(got))) != 0 {
			t.Errorf("%d units are %d mJ, want %s", counter, got, want)
		}
	}
	// If the counter increases by one unit at a time, no remainder may be lost.
	var sum gpu.Millijoules
	for counter := range uint64(65536) {
		sum += millijoules(counter+1) - millijoules(counter)
	}
	if sum != 1000 {
		t.Errorf("65,536 steps of 2⁻¹⁶ J are %d mJ, want 1000", sum)
	}
}

// The decoder must never panic, and all decoded values must be possible.
func FuzzDecode(f *testing.F) {
	for _, tt := range goldens {
		f.Add(tt.blob)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		m, err := decode(file)
		if err != nil && m != (metrics{}) {
			t.Errorf("error %v and values %+v", err, m)
		}
		if m.activity.n > 100 || m.energy.ok && (m.energy.n == 0 || m.energy.n == math.MaxUint32 || millijoules(m.energy.n) < 0) {
			t.Errorf("impossible values %+v", m)
		}
		if m.power.ok && m.power.n == 0 {
			t.Error("a power of 0 W")
		}
	})
}
