package nodelabel_test

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/nodelabel"
)

// What the API server accepts.
var (
	legalName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	legalValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
)

// FuzzDesired: any inventory that is believed gives legal keys and values under our
// prefix and an annotation of less than 4 kB, and the order of its GPUs does not matter.
func FuzzDesired(f *testing.F) {
	for _, page := range []inventory.Page{machine(8, nil), gb200(), machine(2, func(_ int, g *inventory.GPU) { g.Serial = "\xff\x00<" })} {
		text, err := json.Marshal(page)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, "gpu-node-17", uint64(1))
	}
	f.Fuzz(func(t *testing.T, text []byte, node string, seed uint64) {
		var page inventory.Page
		if json.Unmarshal(text, &page) != nil || page.Contradiction() != nil {
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
			random := rand.New(rand.NewPCG(seed, 0))
			random.Shuffle(len(page.GPUs), func(i, j int) { page.GPUs[i], page.GPUs[j] = page.GPUs[j], page.GPUs[i] })
			if diff := cmp.Diff(d, rules.Desired(node, page)); diff != "" {
				t.Errorf("in another order (-first +second):\n%s", diff)
			}
		}
	})
}
