package amd

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// definitions contains the kernel's structures of gpu_metrics (Linux, kgd_pp_interface.h) with shortened names. The
// members have the original order and types, so that a compiler computes their offsets.
const definitions = `
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HEADER uint16_t size; uint8_t format, content;
#define OLD HEADER uint16_t edge, hotspot, mem, vrgfx, vrsoc, vrmem, activity, umc, mm, power; uint64_t energy, ns; \
	uint16_t average[7], clock, soc, memClock, video[4]; uint32_t throttle; uint16_t fan, width, speed;
struct v1_1 { OLD uint16_t pad; uint32_t activitySum, umcSum; uint16_t hbm[4]; };
struct v1_2 { OLD uint16_t pad; uint32_t activitySum, umcSum; uint16_t hbm[4]; uint64_t firmware; };
struct v1_3 { OLD uint16_t pad; uint32_t activitySum, umcSum; uint16_t hbm[4]; uint64_t firmware; uint16_t volt[3], pad1; uint64_t cause; };

#define NEW HEADER uint16_t hotspot, mem, vrsoc, power, activity, umc;
#define LINKS uint16_t pcie[2], xgmi[2]; uint32_t activitySum, umcSum;
#define COUNTS uint64_t bandwidth[2], recoveries, replays, rollovers;
#define NAKS uint32_t naks[2];
#define XGMI uint64_t read[8], written[8];
#define CLOCKS uint64_t firmware; uint16_t clock[8], soc[4], vclk[4], dclk[4], memClock;
#define CYCLES uint32_t samples, prochot, ppt, thermal, vr, hbm;
struct v1_4 { NEW uint16_t vcn[4]; uint64_t energy, ns; uint32_t throttle, lock; LINKS COUNTS XGMI CLOCKS uint16_t pad; };
struct v1_5 { NEW uint16_t vcn[4], jpeg[32]; uint64_t energy, ns; uint32_t throttle, lock; LINKS COUNTS NAKS XGMI CLOCKS uint16_t pad; };
struct v1_6_early { NEW uint16_t vcn[4], jpeg[32]; uint64_t energy, ns; CYCLES uint32_t throttle, lock; LINKS COUNTS NAKS XGMI CLOCKS uint16_t pad; };

struct xcp { uint32_t inst[8]; uint16_t jpeg[32], vcn[4]; uint64_t busy[8]; };
struct xcp_1 { uint32_t inst[8]; uint16_t jpeg[32], vcn[4]; uint64_t busy[8], below[8]; };
struct xcp_2 { uint32_t inst[8]; uint16_t jpeg[40], vcn[4]; uint64_t busy[8], ppt[8], thm[8], low[8], total[8]; };
struct v1_6 { NEW uint64_t energy, ns; CYCLES uint32_t lock; LINKS COUNTS NAKS XGMI CLOCKS uint16_t parts; struct xcp xcp[8]; uint32_t other; };
struct v1_7 { NEW uint64_t most, energy, ns; CYCLES uint32_t lock; LINKS COUNTS NAKS XGMI uint16_t links[8], pad; CLOCKS uint16_t parts; struct xcp_1 xcp[8]; uint32_t other; };
struct v1_8 { NEW uint64_t most, energy, ns; CYCLES uint32_t lock; LINKS COUNTS NAKS XGMI uint16_t links[8], pad; CLOCKS uint16_t parts; struct xcp_2 xcp[8]; uint32_t other; };

struct partition { HEADER uint16_t clock[8], soc[4], vclk[4], dclk[4], memClock, pad; uint32_t inst[8]; uint16_t jpeg[40], vcn[4]; uint64_t busy[8], ppt[8], thm[8], low[8], total[8]; };

#define AT(s, f) offsetof(struct s, f), sizeof(((struct s *)0)->f)
#define CLOCK(s) offsetof(struct s, clock), sizeof(uint16_t)
`

// TestLayouts compares all offsets with the offsets that a compiler computes. Golden blobs cannot detect a wrong
// offset, because they are made from the same table.
func TestLayouts(t *testing.T) {
	var program bytes.Buffer
	program.WriteString(definitions + "int main(void) {\n")
	show := func(format, content int, of, fields, parts string) {
		fmt.Fprintf(&program, "printf(\"%d %d %%zu\", sizeof(struct %s));\n", format, content, of)
		for f := range strings.FieldsSeq("edge hotspot power activity energy activitySum samples clock memClock prochot ppt thermal vr hbm") {
			switch {
			case !strings.Contains(" "+fields+" ", " "+f+" "):
				program.WriteString("printf(\" 0 0\");\n")
			case f == "clock":
				fmt.Fprintf(&program, "printf(\" %%zu %%zu\", CLOCK(%s));\n", of)
			default:
				fmt.Fprintf(&program, "printf(\" %%zu %%zu\", AT(%s, %s));\n", of, f)
			}
		}
		if parts == "" {
			program.WriteString("printf(\" 0 0 0\\n\");\n")
			return
		}
		fmt.Fprintf(&program, "printf(\" %%zu %%zu %%zu\\n\", offsetof(struct %s, xcp), sizeof(struct %s), offsetof(struct %s, busy));\n", of, parts, parts)
	}
	const discrete = "edge hotspot power activity energy activitySum clock memClock"
	const module = "hotspot power activity energy activitySum clock memClock"
	show(1, 1, "v1_1", discrete, "")
	show(1, 2, "v1_2", discrete, "")
	show(1, 3, "v1_3", discrete, "")
	show(1, 4, "v1_4", module, "")
	show(1, 5, "v1_5", module, "")
	const counted = module + " samples prochot ppt thermal vr hbm"
	show(1, 6, "v1_6_early", counted, "")
	show(1, 6, "v1_6", counted, "xcp")
	show(1, 7, "v1_7", counted, "xcp_1")
	show(1, 8, "v1_8", counted, "xcp_2")
	program.WriteString("return 0; }\n")

	got := map[revision]layout{{1, 0, 80}: layouts[revision{1, 0, 80}]} // revision of old GPUs, for which there is no definition
	for line := bufio.NewScanner(bytes.NewReader(compiled(t, program.Bytes()))); line.Scan(); {
		var rev revision
		var l layout
		values := []any{&rev.format, &rev.content, &rev.size}
		for _, f := range []*field{&l.edge, &l.hotspot, &l.power, &l.activity, &l.energy, &l.activitySum, &l.samples, &l.clock, &l.memClock, &l.limits[0], &l.limits[1], &l.limits[2], &l.limits[3], &l.limits[4]} {
			values = append(values, &f.at, &f.width)
		}
		if _, err := fmt.Sscan(line.Text(), append(values, &l.partitions, &l.stride, &l.busy)...); err != nil {
			t.Fatalf("%s: %v", line.Text(), err)
		}
		got[rev] = l
	}
	if diff := cmp.Diff(got, layouts, cmp.AllowUnexported(revision{}, layout{}, field{})); diff != "" {
		t.Errorf("layouts (-compiler +table):\n%s", diff)
	}
}

func TestPartitionLayout(t *testing.T) {
	program := definitions + `int main(void) { printf("%zu %zu", sizeof(struct partition), offsetof(struct partition, busy)); return 0; }`
	if got, want := string(compiled(t, []byte(program))), fmt.Sprint(xcpSize, " ", xcpBusy); got != want {
		t.Errorf("size and offset are %s according to the compiler, but %s in the table", got, want)
	}
}

func compiled(t *testing.T, program []byte) []byte {
	t.Helper()
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(source, program, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "gcc", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}
