package field_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/kernellog"
	"github.com/gpuledger/gpuledger/internal/proc"
	"github.com/gpuledger/gpuledger/internal/reconciler/machine"
	"github.com/gpuledger/gpuledger/internal/source/amd"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
	"github.com/gpuledger/gpuledger/podmapper"
)

// The key is the kind in the first line of a block.
var kinds = map[string]func(t *testing.T, input string) string{
	"pci":      countPCI,
	"xid":      kernelXID,
	"cgroup":   container,
	"node":     selectNode,
	"resource": isGPU,
	"provider": func(_ *testing.T, id string) string { return machine.ID(id, "system-uuid") },
	"serial":   func(_ *testing.T, s string) string { return gpu.Identity(s) },
}

func TestReadme(t *testing.T) {
	files := glob(t, "cases/*.txt")
	text, err := os.ReadFile("../../README.md")
	if want := fmt.Sprintf(" %d [reports from the field]", len(files)); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the README does not contain %q, error %v", want, err)
	}
}

// source matches the first line of each case.
var source = regexp.MustCompile(`^# Source: https://\S+$`)

// TestCases runs every case. A file contains its source, comments, and blocks that are separated by empty lines. The
// first line of a block is a kind. Each other line contains an input and the expected result: input => result. If the
// first line also contains a result, all other lines are one input.
func TestCases(t *testing.T) {
	for _, file := range glob(t, "cases/*.txt") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			head, body, _ := strings.Cut(string(data), "\n")
			if !source.MatchString(head) {
				t.Errorf("the first line is %q, must be # Source: and the address of the report", head)
			}
			blocks := 0
			for block := range strings.SplitSeq(body, "\n\n") {
				if play(t, block) {
					blocks++
				}
			}
			if blocks == 0 {
				t.Error("no block")
			}
		})
	}
}

// play reports whether the block contains an input.
func play(t *testing.T, block string) bool {
	t.Helper()
	var lines []string
	for line := range strings.Lines(block) {
		if line = strings.TrimRight(line, "\n"); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if len(lines) < 2 {
		return false
	}
	name, want, whole := cutResult(lines[0])
	kind := kinds[name]
	if kind == nil {
		t.Fatalf("unknown kind %q", name)
	}
	inputs := lines[1:]
	if whole {
		inputs = []string{strings.Join(inputs, "\n")}
	}
	for _, input := range inputs {
		if !whole {
			input, want, _ = cutResult(input)
		}
		if got := kind(t, input); got != want {
			t.Errorf("%s of\n%s\nis %q, want %q", name, input, got, want)
		}
	}
	return true
}

func cutResult(line string) (input, result string, found bool) {
	i := strings.LastIndex(line, "=>")
	if i < 0 {
		return line, "", false
	}
	return strings.TrimRight(line[:i], " "), strings.TrimSpace(line[i+2:]), true
}

// A line of countPCI contains the address of a device and the device's files. driver and physfn are links.
func countPCI(t *testing.T, input string) string {
	t.Helper()
	sys := t.TempDir()
	for line := range strings.Lines(input) {
		fields := strings.Fields(line)
		folder := filepath.Join(sys, "bus/pci/devices", fields[0])
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, field := range fields[1:] {
			name, value, _ := strings.Cut(field, "=")
			path, err := filepath.Join(folder, name), error(nil)
			switch name {
			case "driver":
				err = os.Symlink("../../drivers/"+value, path)
			case "physfn":
				err = os.Symlink("../"+value, path)
			default:
				err = os.WriteFile(path, []byte(value+"\n"), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	n, err := host.Host{SysFS: sys}.CountPCI(slices.Concat(nvml.PCIClasses, amd.PCIClasses))
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(n)
}

// kernelXID returns the address, the code and the severity in a line of the kernel's log.
func kernelXID(_ *testing.T, line string) string {
	x, _, ok := kernellog.Parse([]byte("3,1,1,-;" + line + "\n"))
	if !ok {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%s %d %s", x.Address, x.Code, x.Severity))
}

// container returns the start of the container id in a line of /proc/<pid>/cgroup if the container is in a pod.
func container(_ *testing.T, line string) string {
	for segments, err := range proc.Paths(line) {
		if err != nil {
			return err.Error()
		}
		for i, segment := range segments {
			if podmapper.IsPod(segment, segments[:i]) {
				return "pod " + proc.ContainerIDIn(segments[i:])[:8]
			}
		}
	}
	return ""
}
