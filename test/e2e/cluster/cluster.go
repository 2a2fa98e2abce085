//go:build e2e

// Package cluster runs a real etcd and kube-apiserver, and optionally kube-controller-manager, on loopback. Tests use
// it to test clients of these programs.
//
// There are no real nodes and no scheduler, so tests write Nodes and pods. RBAC and admission work as usual, tokens are
// real, and the audit log contains every request. All programs end with the test's process, even if the process is
// killed.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gpuledger/gpuledger/test/program"
)

// ProgramsEnv is the environment variable with the folder of the programs that tools/servers installs.
const ProgramsEnv = "GPULEDGER_E2E_SERVERS"

// startTimeout is long enough for a busy machine.
const startTimeout = 2 * time.Minute

// The API server's certificate always contains this name, in addition to the server's address.
const serverName = "kubernetes.default.svc"

// Cluster is a running control plane.
type Cluster struct {
	// Admin has all rights.
	Admin *rest.Config
	// Client has the rights of Admin and uses protobuf.
	Client kubernetes.Interface

	programs string // folder of the programs
	group    *program.Group
}

// Start runs etcd and kube-apiserver with additional flags, and returns when the API server is ready. Stop ends both
// programs.
func Start(ctx context.Context, flags ...string) (_ *Cluster, err error) {
	programs := os.Getenv(ProgramsEnv)
	if programs == "" {
		return nil, fmt.Errorf("%s is not set: run the tests with make e2e", ProgramsEnv)
	}
	group, err := program.Open("cluster")
	if err != nil {
		return nil, err
	}
	c := &Cluster{programs: programs, group: group}
	defer func() {
		if err != nil {
			c.Logs(os.Stderr)
			c.Stop()
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.startEtcd(); err != nil {
		return nil, err
	}
	return c, c.startServer(ctx, flags)
}

// Stop kills the programs, because their data is not needed.
func (c *Cluster) Stop() {
	c.group.Kill()
	_ = c.group.Close() // folder for temporary files
}

// Logs writes the end of every program's log.
func (c *Cluster) Logs(w io.Writer) { c.group.Logs(w) }

// The API server waits until etcd is ready.
func (c *Cluster) startEtcd() error {
	client, peer := "unix://"+c.path("etcd"), "unix://"+c.path("peer")
	_, err := c.start("etcd",
		"--data-dir="+c.path("data"), "--unsafe-no-fsync", "--log-level=warn", "--quota-backend-bytes=8589934592",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	return err
}

// startServer must choose the port before the start. If another process then takes the port, startServer tries another
// one.
func (c *Cluster) startServer(ctx context.Context, flags []string) error {
	args, token, err := c.serverArgs()
	if err != nil {
		return err
	}
	for {
		address, err := program.FreeAddress()
		if err != nil {
			return err
		}
		p, err := c.start("kube-apiserver", append(append(args, flags...), "--secure-port="+program.Port(address))...)
		if err != nil {
			return err
		}
		err = c.serverReady(ctx, p, &rest.Config{
			Host:            "https://" + address,
			BearerToken:     token,
			TLSClientConfig: rest.TLSClientConfig{CAFile: c.certificate(), ServerName: serverName},
			QPS:             -1, // no limit on the tests' own requests
			WarningHandler:  rest.NoWarnings{},
		})
		if !errors.Is(err, program.ErrEnded) || !strings.Contains(p.Tail(), "address already in use") {
			return err
		}
	}
}

func (c *Cluster) serverArgs() (args []string, token string, err error) {
	key, err := signingKey()
	if err != nil {
		return nil, "", err
	}
	token = randomToken()
	for name, content := range map[string]string{
		"key":    key,
		"tokens": token + `,admin,admin,"system:masters"`,
		"policy": auditPolicy,
	} {
		if err := os.WriteFile(c.path(name), []byte(content), 0o600); err != nil {
			return nil, "", err
		}
	}
	return []string{
		"--etcd-servers=unix://" + c.path("etcd"),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--cert-dir=" + c.path("cert"), "--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC", "--token-auth-file=" + c.path("tokens"), "--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.path("key"), "--service-account-signing-key-file=" + c.path("key"),
		"--audit-policy-file=" + c.path("policy"), "--audit-log-path=" + c.path("audit"), "--audit-log-maxsize=4096",
	}, token, nil
}

func (c *Cluster) serverReady(ctx context.Context, p *program.Program, config *rest.Config) error {
	return p.Wait(ctx, func() error {
		// A client can be created only after the server has written its certificate.
		client, err := kubernetes.NewForConfig(protobuf(config))
		if err != nil {
			return err
		}
		if err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return err
		}
		c.Admin, c.Client = config, client
		return nil
	})
}

// protobuf is the cheapest encoding.
func protobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	return config
}

func (c *Cluster) start(name string, args ...string) (*program.Program, error) {
	return c.group.Start(name, filepath.Join(c.programs, name), args...)
}

// The file also contains the certificate of the authority that signed the API server's certificate.
func (c *Cluster) certificate() string { return c.path("cert", "apiserver.crt") }

func (c *Cluster) path(name ...string) string { return c.group.Path(name...) }
