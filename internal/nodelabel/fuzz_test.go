package nodelabel_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/nodelabel"
)

var (
	legalName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	legalValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
)

// FuzzDesired checks inventories without contradictions. All keys and values must be valid, every key must have the
// prefix, and the annotation must have at most 4 kB. The order of the GPUs must not matter.
func FuzzDesired(f *testing.F) {
	f.Add("1653924020800 1653924020801", "1821225190819", "00000000:1B:00.0 00000000:43:00.0", "gpu-node-17", uint64(1))
	f.Add("N/A \xff\x00< 0000000000000", "N/A \"c\" /", "a A a", "", uint64(2))
	f.Fuzz(func(t *testing.T, serials, chassis, addresses, node string, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		page := inventory.Page{Node: gpu.Node{ChassisSerial: chassis}}
		for i, serial := range strings.Split(serials, " ") {
			page.GPUs = append(page.GPUs, inventory.GPU{Present: random.IntN(4) > 0, Device: gpu.Device{
				UUID: fmt.Sprint(i, serial), Serial: serial, PCIBusID: nth(addresses, i),
				Platform: gpu.Platform{ChassisSerial: nth(chassis, i), Slot: new(random.IntN(2) - 1)},
			}})
		}
		if page.Contradiction() != nil {
			return
		}
		for _, rules := range []nodelabel.Rules{
			{Scheme: nodelabel.Own, Prefix: nodelabel.OwnPrefix, ChassisFallback: "none-{node}", DMIChassis: true},
			{Scheme: nodelabel.GPUID, Prefix: nodelabel.GPUIDPrefix},
		} {
			d := rules.Desired(node, page)
			for key, value := range d.Labels {
				name, ours := strings.CutPrefix(key, rules.Prefix+"/")
				if !ours || !legalName.MatchString(name) || !legalValue.MatchString(value) {
					t.Errorf("label %q=%q is not legal", key, value)
				}
			}
			for key, value := range d.Annotations {
				if key != "gpuledger.io/inventory" || len(value) >= 4096 || !json.Valid([]byte(value)) {
					t.Errorf("annotation %q of %d bytes: %q", key, len(value), value)
				}
			}
			random.Shuffle(len(page.GPUs), func(i, j int) { page.GPUs[i], page.GPUs[j] = page.GPUs[j], page.GPUs[i] })
			if diff := cmp.Diff(d, rules.Desired(node, page)); diff != "" {
				t.Errorf("labels for another order of the GPUs (-first +second):\n%s", diff)
			}
		}
	})
}

func nth(s string, i int) string {
	words := strings.Split(s, " ")
	return words[i%len(words)]
}
