// Package simnode is a simulated GPU node for the demo and the tests. It lays
// out, in one directory, everything that the unchanged exporter reads on a real
// node, keeps it moving, and writes down beside it what is really going on:
//
//	proc/                         PID 1, daemons, pause processes, containers' processes
//	sys/                          PCI devices and the machine's DMI identity
//	log/containers/               the kubelet's links; their targets dangle
//	kubelet/pod-resources/        a gRPC pod-resources v1 server on kubelet.sock
//	kubelet/pods-api/             in some scenarios a Pods API v1alpha1 server on pods-api.sock
//	driver/state.tsv, calls.tsv   what the fake driver library shows, and its log of calls
//	proc.new/                     where processes are prepared
//	state/                        room for the exporter's own state
//	truth.json                    the newest row of the truth (a [Truth])
//	truth.jsonl, truth.1.jsonl    its history, one row per 100 ms, and the file before
//
// The truth comes from a model that is not the exporter's rule. Every GPU draws
// a floor, and every process adds watts of its own in proportion to how busy it
// is; the exporter sees only the board's counter and sampled activity. The floor
// is borne by the containers that hold the GPU by allocation, each by the replicas
// it holds, else equally by the processes present, else by nobody (idle). On a GPU
// in MIG mode the floor is first divided over its slices: every instance bears that
// of its own in this way, and that of free slices is idle. A claim with admin access
// holds nothing. All sums are whole millijoules, and the parts add up to the board
// exactly.
//
// Time comes in through [Node.Step], so that a test can run a node on an
// invented clock; with the same scenario and start, every run is the same.
// [Node.Live] runs it in real time.
package simnode
