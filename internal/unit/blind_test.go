package unit_test

import (
	"testing"
	"time"
)

// TestBlind checks that jobs keep their GPUs while the exporter sees no process of any job, even after polls. When
// processes are visible again, the mapper must detect the end of a job. The prologs' files are old, so they count only
// for jobs with a process.
func TestBlind(t *testing.T) {
	for name, ended := range map[string]bool{"still there": false, "ended": true} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, nil)
			m.write("held/0", "301\n")
			m.write("held/1", "302\n")
			m.now += time.Hour
			show := func() {
				m.start(1, "systemd", "/init.scope", "")
				m.job(20, "302", "s8FXKTA79XAR02")
				if !ended {
					m.job(10, "301", "s8FXKTA79XAR01")
				}
			}
			show()
			m.job(10, "301", "s8FXKTA79XAR01")
			m.refresh()
			both := []string{"slurm/301 exclusive", "slurm/302 exclusive"}
			m.wantHeld(both...)
			for _, pid := range []string{"1", "10", "11", "20", "21"} {
				m.remove("proc/" + pid)
			}
			m.wantHeld(both...)
			for range 2 {
				if err := m.Refresh(t.Context()); err == nil {
					t.Error("a poll without visible processes returned no error")
				}
				m.wantHeld(both...)
			}
			show()
			if ended {
				m.wantHeld("slurm/301 exclusive dead", both[1])
				m.refresh()
				m.wantHeld(both[1], "none")
				return
			}
			m.wantHeld(both...)
			m.refresh()
			m.wantHeld(both...)
		})
	}
}
