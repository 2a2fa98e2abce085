package status_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/status"
)

// TestReceipt checks the line for a job on two GPUs. The job shares one of these GPUs with other jobs.
func TestReceipt(t *testing.T) {
	job := func(n string, energy gpu.ByMethod, idle gpu.Millijoules) gpu.Account {
		a := account("", "", "", energy)
		a.Owner, a.Idle = gpu.Unit{Manager: "slurm", Name: n}.Owner(), idle
		return a
	}
	first := newGPU(0, job("4711", gpu.ByMethod{gpu.Exclusive: 30_000_000}, 1_000_000))
	second := newGPU(2, job("4711", gpu.ByMethod{gpu.Shared: 5_000_000, gpu.Allocated: 790_000}, 432_000), job("4712", gpu.ByMethod{gpu.Shared: 7_000_000}, 0))
	second.Book.Settled.Wall = now.Wall.Add(-3 * time.Second)
	third := newGPU(4, job("4713", gpu.ByMethod{gpu.Shared: 1_000}, 1_000))
	third.Serial = ""
	third.Book.Accounts = append(third.Book.Accounts, account("team-a", "train-0", "main", gpu.ByMethod{gpu.Shared: 1_000}))
	p := status.New(&gpu.Snapshot{At: now, GPUs: []gpu.GPU{first, second, third}}, now)
	for _, tt := range []struct{ unit, want string }{
		{"slurm/4711", "job 4711: 35.79\u00a0kJ, 4\u00a0% idle, on 2 boards: " + first.Serial + ", " + second.Serial + "; until 2026-03-01 07:59:57 UTC\n"},
		{"slurm/4713", "job 4713: 1.00\u00a0J, 100\u00a0% idle, on 1 board: " + third.UUID + "; until "},
		{"slurm/4714", "no unit of this name was charged energy"},
		{"/", "no unit of this name was charged energy"}, // must not match pods, whose manager and unit are empty
		{"", "no unit of this name was charged energy"},
	} {
		var out bytes.Buffer
		err := status.WriteReceipt(&out, &p, tt.unit)
		got := out.String()
		if err != nil {
			got += err.Error()
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.unit, got, tt.want)
		}
	}
}

func TestNouns(t *testing.T) {
	for manager, want := range map[string]string{
		"slurm": "job 7", "pbs": "job 7", "condor": "slot 7", "nerdctl": "container 7", "libvirt": "virtual machine 7", "user": "user 7", "batchd": "batchd/7",
	} {
		c := status.Container{Manager: manager, Unit: "7"}
		if name := c.PodName(); name != want {
			t.Errorf("a unit of %s is named %q, want %q", manager, name, want)
		}
	}
}
