package unit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Numbers defines which GPU a number in prologs' files means. It can be used with [flag.TextVar]. The zero value is
// [Index].
type Numbers struct {
	meaning meaning
	// nodes contains the numbers of the device nodes, in the order of gres.conf. If nodes is empty, the number of each
	// device node is its position.
	nodes []int
}

type meaning int

const (
	index meaning = iota
	minor
	amd
)

var meanings = []string{"index", "minor", "amd"}

// These are the meanings of a number.
var (
	Index = Numbers{}               // the driver's order, as with AutoDetect=nvml in gres.conf
	Minor = Numbers{meaning: minor} // the number of the device node, as with File=/dev/nvidia[0-7]
	AMD   = Numbers{meaning: amd}   // the position among the AMD GPUs and partitions
)

const maxNumber = 999

// MarshalText implements [encoding.TextMarshaler].
func (n Numbers) MarshalText() ([]byte, error) {
	if n.nodes == nil {
		return []byte(meanings[n.meaning]), nil
	}
	var ranges []string
	for i := 0; i < len(n.nodes); {
		last := i
		for last+1 < len(n.nodes) && n.nodes[last+1] == n.nodes[last]+1 {
			last++
		}
		text := strconv.Itoa(n.nodes[i])
		if last > i {
			text += "-" + strconv.Itoa(n.nodes[last])
		}
		ranges = append(ranges, text)
		i = last + 1
	}
	return []byte(meanings[n.meaning] + ":" + strings.Join(ranges, ",")), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (n *Numbers) UnmarshalText(text []byte) error {
	name, list, hasNodes := strings.Cut(string(text), ":")
	i := slices.Index(meanings, name)
	if i < 0 || hasNodes && meaning(i) != minor {
		return fmt.Errorf("%q: must be one of %q, or minor:<list>, such as minor:4-7 for File=/dev/nvidia[4-7]", text, meanings)
	}
	*n = Numbers{meaning: meaning(i)}
	if !hasNodes {
		return nil
	}
	for field := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(field, "-")
		first, err := strconv.ParseUint(from, 10, 16)
		last := first
		if err == nil && isRange {
			last, err = strconv.ParseUint(to, 10, 16)
		}
		if err != nil || last < first || last > maxNumber {
			return fmt.Errorf("%q: %q must be a number of /dev/nvidia<n> or a range, such as 4-7", text, field)
		}
		for ; first <= last; first++ {
			n.nodes = append(n.nodes, int(first))
		}
	}
	return nil
}

// firstRender is the minor number of the first render node. Old versions of Slurm number a GPU by the digits in the
// name of its device file, for example 128 for /dev/dri/renderD128. Such a number cannot be a position, because no
// machine has so many GPUs.
const firstRender = 128

// device returns the name of the GPU with the given number, which has up to three digits. It returns false if nodes has
// no element at this position.
func (n Numbers) device(number string) (gpu.DeviceName, bool) {
	i, _ := strconv.Atoi(number)
	switch {
	case i >= firstRender:
		return gpu.DeviceName{Node: "dri/renderD" + strconv.Itoa(i)}, true
	case n.meaning == amd:
		return gpu.DeviceName{Position: &i}, true
	case n.meaning == index:
		return gpu.DeviceName{Index: &i}, true
	case n.nodes == nil:
		return gpu.DeviceName{Node: "nvidia" + number}, true
	case i >= len(n.nodes):
		return gpu.DeviceName{}, false
	}
	return gpu.DeviceName{Node: "nvidia" + strconv.Itoa(n.nodes[i])}, true
}
