// Package simnode simulates a GPU node for the demo and the tests. It writes all files that the
// unmodified exporter reads on a real node into one directory, and keeps them up to date. It also
// records the true energy use:
//
//	proc/                         PID 1, daemons, pause processes, containers' processes
//	sys/                          PCI devices, the machine's DMI identity, the files of amdgpu and amdkfd
//	log/containers/               the kubelet's links; their targets do not exist
//	kubelet/pod-resources/        a gRPC pod-resources v1 server on kubelet.sock
//	kubelet/pods-api/             in some scenarios a Pods API v1alpha1 server on pods-api.sock
//	driver/state.tsv, calls.tsv   the state that the fake driver library reports, and its log of calls
//	proc.new/, kfd.new/           directories of processes that are not complete yet
//	state/                        the exporter's own state
//	truth.json                    the newest row of the truth (a [Truth])
//	truth.jsonl, truth.1.jsonl    the history with one row per 100 ms, and the previous file
//	truth-10s.jsonl, ….1.jsonl    one row per 10 s, without processes, for gpuledger-archive verify --truth
//
// A model computes the truth. Its rules differ from the exporter's rules. Every GPU draws a constant power, the floor.
// Each process adds power in proportion to its activity. The exporter reads only the board's counter and the sampled
// activity.
//
// The containers that hold the GPU pay for the floor, in proportion to their replicas. If no container holds the GPU,
// the processes on the GPU pay equal parts. Without processes, the floor is idle and no account pays. On a GPU in MIG
// mode the floor is first divided by slices, and the floor of free slices is idle. A claim with admin access holds no
// device.
//
// All energies are whole millijoules and add up exactly to the energy of the board.
//
// [Node.Step] sets the time, so that a test can run a node with a simulated clock. Runs with equal scenarios and start
// times are identical. [Node.RunLive] runs a node in real time.
package simnode
