package app_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

// TestKubeletOutage checks the charges of three pods after five minutes. For three of these minutes, the kubelet does
// not respond. Each pod holds one replica for the whole time, and one pod works. In one of the tests, the exporter
// restarts during the outage, and its first poll takes three seconds.
func TestKubeletOutage(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	const seconds = 300
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			sc := onH100(3, []simnode.Pod{
				sharingPod("idle", 0), sharingPod("open", 1, process("python3", simnode.Constant(0), simnode.Compute)),
				sharingPod("busy", 2, process("python3", simnode.Constant(50), simnode.Compute)),
			}, nil)
			undisturbed := benchOf(t, sc, false)
			undisturbed.run(seconds)
			want := undisturbed.gpus()[0].Book

			sc.Events = []simnode.Event{
				{At: 40 * time.Second, Do: simnode.StopKubelet}, {At: 220 * time.Second, Do: simnode.StartKubelet},
			}
			b := benchOf(t, sc, false)
			for s := range seconds {
				if restart && s == 120 {
					b.stop()
					b.start()
				}
				polling := restart && s >= 120 && s < 123
				if s%10 == 0 && !polling || restart && s == 123 {
					_ = b.node.Mapper.Refresh(t.Context()) // fails while the kubelet does not respond
				}
				b.node.Sampler.Tick(t.Context())
				b.step()
				for _, a := range b.gpus()[0].Book.Accounts {
					if a.Active > a.Allocated {
						t.Fatalf("second %d: %s is active for %v, but held the GPU for %v", s, a.Name, a.Active, a.Allocated)
					}
				}
			}
			b.balanced()
			got := b.gpus()[0].Book
			if len(got.Accounts) != 3 {
				t.Fatalf("%d accounts, want 3", len(got.Accounts))
			}
			for i := range got.Accounts {
				g, w := &got.Accounts[i], &want.Accounts[i]
				for name, times := range map[string][2]time.Duration{
					"held": {g.Allocated, w.Allocated}, "GPU time": {g.GPUTime, w.GPUTime}, "active": {g.Active, w.Active},
				} {
					if off := times[0] - times[1]; off.Abs() > 2*time.Second && !(restart && name == "active" && off.Abs() <= 12*time.Second) {
						t.Errorf("%s: %s %v, want %v", g.Name, name, times[0], times[1])
					}
				}
				if off := float64(g.Energy.Sum()-w.Energy.Sum()) / float64(want.Energy); math.Abs(off) > near && !restart {
					t.Errorf("%s is charged %d mJ, want %d", g.Name, g.Energy.Sum(), w.Energy.Sum())
				}
				if g.Energy[gpu.Exclusive] != 0 {
					t.Errorf("%s is charged %d mJ with method exclusive on a shared GPU", g.Name, g.Energy[gpu.Exclusive])
				}
			}
		})
	}
}
