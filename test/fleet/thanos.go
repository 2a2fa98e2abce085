package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/gpuledger/gpuledger/test/program"
)

// Receive describes a Thanos Receive to which the Prometheus of each cluster writes.
type Receive struct {
	HTTP, GRPC, Write string // addresses
}

// NewReceive selects free addresses for a Receive.
func NewReceive() (r Receive, err error) {
	for _, a := range []*string{&r.HTTP, &r.GRPC, &r.Write} {
		if *a, err = program.FreeAddress(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// RemoteWrite returns the URL to which a Prometheus writes.
func (r Receive) RemoteWrite() string { return "http://" + r.Write + "/api/v1/receive" }

// StartReceive waits until the Receive is ready. A Receive that is started again keeps its data.
func (f *Fleet) StartReceive(ctx context.Context, r Receive) (*program.Program, error) {
	p, err := f.thanos("receive",
		"--http-address="+r.HTTP, "--grpc-address="+r.GRPC, "--remote-write.address="+r.Write,
		"--tsdb.path="+f.Path("receive"), `--label=receive="0"`)
	if err != nil {
		return nil, err
	}
	return p, p.Ready(ctx, "http://"+r.HTTP+"/-/ready")
}

// StartQuery starts a Thanos Query for components at the given gRPC addresses. It returns the URL when the Query is
// ready.
func (f *Fleet) StartQuery(ctx context.Context, components ...string) (url string, err error) {
	http, err := program.FreeAddress()
	if err != nil {
		return "", err
	}
	grpc, err := program.FreeAddress()
	if err != nil {
		return "", err
	}
	args := []string{"--http-address=" + http, "--grpc-address=" + grpc, "--query.replica-label=receive"}
	for _, c := range components {
		args = append(args, "--endpoint="+c)
	}
	p, err := f.thanos("query", args...)
	if err != nil {
		return "", err
	}
	return "http://" + http, p.Ready(ctx, "http://"+http+"/-/ready")
}

// StartStore uploads the blocks in each folder to a bucket, with the cluster as a label. Then it starts a Thanos Store
// that serves them, and returns its gRPC address.
func (f *Fleet) StartStore(ctx context.Context, blocks map[string]string) (grpc string, err error) {
	bucket, err := json.Marshal(object{"type": "FILESYSTEM", "config": object{"directory": f.Path("bucket")}})
	if err != nil {
		return "", err
	}
	for cluster, dir := range blocks {
		upload := exec.CommandContext(ctx, f.thanosPath(), "tools", "bucket", "upload-blocks",
			"--path="+dir, "--objstore.config="+string(bucket), fmt.Sprintf("--label=cluster=%q", cluster), "--shipper.upload-compacted")
		if out, err := upload.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", upload.Args, err, out)
		}
	}
	http, err := program.FreeAddress()
	if err != nil {
		return "", err
	}
	if grpc, err = program.FreeAddress(); err != nil {
		return "", err
	}
	p, err := f.thanos("store", "--http-address="+http, "--grpc-address="+grpc, "--data-dir="+f.Path("store"), "--objstore.config="+string(bucket))
	if err != nil {
		return "", err
	}
	return grpc, p.Ready(ctx, "http://"+http+"/-/ready")
}

func (f *Fleet) thanosPath() string { return filepath.Join(f.programs.Thanos, "thanos") }

func (f *Fleet) thanos(component string, args ...string) (*program.Program, error) {
	if _, err := os.Stat(f.thanosPath()); err != nil {
		return nil, fmt.Errorf("find the programs: %w", err)
	}
	return f.Start("thanos-"+component, f.thanosPath(), append([]string{component}, args...)...)
}
