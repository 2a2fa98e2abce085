package podmapper_test

import "testing"

// TestBlind checks a mapper that sees only the exporter's own process for some time. In this time, pods must keep their
// GPUs. When the mapper sees other processes again, it must detect that a pod has ended.
func TestBlind(t *testing.T) {
	for name, ended := range map[string]bool{"still there": false, "ended": true} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.link(trainer, id)
			n.serve(holds(holder(trainer, "", gpuA)))
			show := func() { n.start(1, 1, "systemd", "/init.scope") }
			show()
			n.start(10, 5, "python3", cgroupPath(trainer, id))
			n.poll()
			n.wantHeld(exclusive(gpuA, trainer, true))
			n.exit(1)
			n.exit(10)
			n.wantHeld(exclusive(gpuA, trainer, true))
			for range 2 {
				n.pollFails("does not list process 1")
				n.wantHeld(exclusive(gpuA, trainer, true))
			}
			show()
			if !ended {
				n.start(10, 5, "python3", cgroupPath(trainer, id))
			}
			n.poll()
			n.wantHeld(exclusive(gpuA, trainer, !ended))
		})
	}
}

// TestEndedBeforeBlind checks a pod that has ended, although the kubelet still lists it and its logs still exist. The
// pod has no process, so it must not count as alive, even while the mapper sees no processes at all.
func TestEndedBeforeBlind(t *testing.T) {
	for name, hide := range map[string]func(n *node){
		"no process": func(n *node) { n.exit(1) },
		"another namespace": func(n *node) {
			n.namespace("pid:[4026532817]")
			n.write("proc/1/cgroup", "garbage\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.link(trainer, id)
			n.serve(holds(holder(trainer, "", gpuA)))
			n.start(1, 1, "systemd", "/init.scope")
			n.start(10, 5, "python3", cgroupPath(trainer, id))
			n.poll()
			n.wantHeld(exclusive(gpuA, trainer, true))
			n.exit(10)
			n.poll()
			hide(n)
			for range 2 {
				n.wantHeld(exclusive(gpuA, trainer, false))
				_ = n.Refresh(t.Context())
			}
			n.wantHeld(exclusive(gpuA, trainer, false))
			n.start(1, 1, "systemd", "/init.scope")
			n.namespace(hostPIDs)
			n.start(11, 9, "python3", cgroupPath(trainer, id))
			n.poll()
			n.wantHeld(exclusive(gpuA, trainer, true))
		})
	}
}
