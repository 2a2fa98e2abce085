package reconciler_test

import (
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/reconciler"
)

func env(name string) string {
	return map[string]string{"POD_NAME": "gpuledger-reconciler-0", "POD_NAMESPACE": "monitoring"}[name]
}

func TestDefaults(t *testing.T) {
	c, err := reconciler.Parse(nil, env)
	if err != nil {
		t.Fatal(err)
	}
	if c.Lease.Namespace != "monitoring" || c.Lease.Identity != "gpuledger-reconciler-0" || c.Cleanup ||
		c.Labels.Resync != 10*time.Minute || c.Labels.Writes != 20 || c.Labels.Rules.Prefix != "gpuledger.io" || len(c.Labels.Exporters.DaemonSets) != 1 || c.Labels.Resources == nil {
		t.Errorf("defaults: %+v", c)
	}
	if c, err = reconciler.Parse(nil, func(string) string { return "" }); err != nil || c.Lease.Namespace != "gpuledger" || c.Lease.Identity == "" {
		t.Errorf("outside a pod: %+v, %v", c.Lease, err)
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		args string
		want string // part of the error; empty if the flags are valid
	}{
		{"--enable=labels", ""},
		{"cleanup --dry-run", ""},
		{"--label-scheme=gpuid --label-prefix=gpuid.github.com", ""},
		{"--leader-election=false --leader-election.name=", ""},
		{"--enable=", "--enable is empty"},
		{"--enable=labels,energy", `"energy" is not a part`},
		{"--enable", "flag needs an argument"},
		{"labels", `unexpected argument "labels"`},
		{"--dry-run cleanup", `unexpected argument "cleanup"`},
		{"--label-scheme=nvidia", "--label-*"},
		{"--label-prefix=kubernetes.io", "reserved"},
		{"--label-ttl=-1s", "--label-ttl"},
		{"--resync=1ms", "--resync"},
		{"--confirm=0s", "--confirm"},
		{"--write-rate=0", "--write-rate"},
		{"--exporter.rate=-1", "--exporter.rate"},
		{"--exporter.concurrency=0", "--exporter.concurrency"},
		{"--expected-labels=gpu", "not key=value"},
		{"--leader-election.name=", "--leader-election.name is empty"},
		{"--leader-election.duration=1ms", "--leader-election.duration"},
		{"--resource-pattern=(", "--resource-pattern"},
		{"--retention=-1s", "--retention"},
		{"--snapshots=some", "--snapshots"},
		{"--snapshots=send", "--snapshots=send requires --events.url"},
		{"--events=false --snapshots=log", "--snapshots=log requires --events"},
		{"--events=false --snapshots=send --events.url=http://archive --events.cluster=east", ""},
		{"--events.cluster=east", "require --events.url"},
		{"--events.url=http://archive", "requires --events.cluster"},
		{"--events.url=archive:9840 --events.cluster=east", "--events.url"},
		{"--events.url=http://u:p@archive --events.cluster=east", "without a password"},
		{"--events.url=http://archive --events.cluster=east --enable=labels", "--events.url requires --enable=workloads"},
		{"--events.url=http://archive --events.cluster=east --events.token-file=t", "--events.token-over-http"},
		{"--events.url=http://archive --events.cluster=east --events.token-file=t --events.token-over-http", ""},
		{"--events.token-over-http", "require --events.url"},
		{"--events.tls.key-file=k", "require --events.url"},
		{"--events.url=https://archive --events.cluster=east --events.tls.key-file=k", "must be set together"},
		{"--events.url=https://archive --events.cluster=east --events.tls.cert-file=c --events.tls.key-file=k", ""},
		{"--events.url=http://[::1]:9840 --events.cluster=east --events.token-file=t", ""},
		{"--events.url=https://archive/base --events.cluster=east --events.token-file=t --events.tls.ca-file=ca.pem", ""},
		{"--log.format=xml", "--log.format"},
		{"--web.config.file=/nonexistent", "--web.config.file"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			_, err := reconciler.Parse(strings.Fields(tt.args), env)
			want := strings.TrimPrefix(tt.want, "-") // the flag package prints only one dash
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := reconciler.Parse([]string{"--help"}, env); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
}
