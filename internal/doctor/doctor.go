// Package doctor implements the command kubectl gpuledger doctor. It reads a cluster through kubectl,
// with the user's context and permissions, and prints advice.
package doctor

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/prometheus/common/version"

	"github.com/gpuledger/gpuledger/internal/doctor/advice"
	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// upcoming is the version in the printed commands if this program is not a released version.
const upcoming = "0.1.0"

type options struct {
	kubectl   string
	namespace string
	all       bool
	passed    []string // flags that are passed to kubectl
}

var kubectlFlags = [][2]string{
	{"kubeconfig", "kubeconfig `file`"},
	{"context", "`name` of the context in the kubeconfig"},
	{"cluster", "`name` of the cluster in the kubeconfig"},
	{"user", "`name` of the user in the kubeconfig"},
	{"as", "`user` to impersonate"},
	{"as-group", "`group` to impersonate"},
	{"server", "`address` of the API server"},
	{"request-timeout", "`timeout` for one request by kubectl, such as 30s"},
}

// Flags returns the flag set of the command.
func Flags() *flag.FlagSet {
	fs, _ := flags()
	return fs
}

func flags() (*flag.FlagSet, *options) {
	fs, o := flag.NewFlagSet("doctor", flag.ContinueOnError), &options{}
	fs.SetOutput(io.Discard)
	for _, f := range kubectlFlags {
		fs.Func(f[0], f[1], func(value string) error {
			o.passed = append(o.passed, "--"+f[0]+"="+value)
			return nil
		})
	}
	for _, name := range []string{"namespace", "n"} {
		fs.StringVar(&o.namespace, name, advice.Namespace, "`namespace` for gpuledger in the printed install commands")
	}
	fs.StringVar(&o.kubectl, "kubectl", "", "kubectl `command`, such as \"k3s kubectl\"; default is $KUBECTL or kubectl")
	fs.BoolVar(&o.all, "all", false, "list all Nodes instead of the first ten in each state")
	return fs, o
}

// Process is the environment of the command.
type Process struct {
	Out, Err io.Writer
	Program  string // name of the program in messages
	Kubectl  string // value of the environment variable KUBECTL
}

// Run prints the advice and returns the exit status. The status is 0 if every Node with GPUs has a ready exporter, and
// 1 if the user must do something. It is 2 if flags are invalid or the cluster cannot be read.
func Run(ctx context.Context, args []string, p Process) int {
	fs, o := flags()
	err := fs.Parse(args)
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(p)
		return advice.Well
	case err != nil:
		return p.fail(err)
	}
	k := kubectl{command: []string{"kubectl"}, flags: o.passed}
	if fields := strings.Fields(o.kubectl); len(fields) > 0 {
		k.command = fields
	} else if fields := strings.Fields(p.Kubectl); len(fields) > 0 {
		k.command = fields
	}
	cluster, err := advice.Read(func(path string) ([]byte, error) { return k.get(ctx, path) })
	if err != nil {
		return p.fail(err)
	}
	release, released := releaseOf(version.Version)
	status, err := cluster.Write(p.Out, advice.Options{Namespace: o.namespace, Release: release, Released: released, All: o.all})
	if err != nil {
		return p.fail(err)
	}
	return status
}

var semantic = regexp.MustCompile(`^v?([0-9]+\.[0-9]+\.[0-9]+)$`)

func releaseOf(stamped string) (string, bool) {
	if match := semantic.FindStringSubmatch(stamped); match != nil {
		return match[1], true
	}
	return upcoming, false
}

func (p Process) fail(err error) int {
	fmt.Fprintf(p.Err, "%s doctor: %s\n", p.Program, labelvalue.Printable(strings.ReplaceAll(err.Error(), "\n", "; ")))
	return advice.Unreadable
}

func usage(p Process) {
	fmt.Fprintf(p.Out, `%s doctor prints the row of docs/install.md that fits a cluster, the Nodes without an exporter, and the reasons.

The command runs kubectl get --raw, and changes nothing. It reads Nodes, DaemonSets and their pods and events,
ResourceSlices, Deployments, and gpuledger's admission policy and ConfigMap.

Exit status: 0 if each Node with GPUs has a ready exporter, 1 if something must be done, 2 if the cluster cannot be
read.

`, p.Program)
	fs, _ := flags()
	fs.SetOutput(p.Out)
	fs.PrintDefaults()
}
