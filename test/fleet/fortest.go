package fleet

import (
	"fmt"
	"os"
	"testing"

	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// Like prometheus.Env, these environment variables contain folders of programs for tests: the folders from
// make build, of Thanos, and of tools/history.
const (
	BinEnv     = "GPULEDGER_E2E_BIN"
	ThanosEnv  = "GPULEDGER_E2E_THANOS"
	HistoryEnv = "GPULEDGER_E2E_HISTORY"
)

// OpenFor opens a fleet with the programs in the environment. The fleet ends with the test. If the test
// failed, it prints the logs.
func OpenFor(t testing.TB) *Fleet {
	t.Helper()
	programs, err := fromEnv()
	if err == nil {
		err = programs.find()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &Fleet{Group: program.OpenFor(t), programs: programs}
}

func fromEnv() (p Programs, err error) {
	if p.Prometheus, err = prometheus.FromEnv(); err != nil {
		return p, err
	}
	if p.Bin, p.Thanos, p.History = os.Getenv(BinEnv), os.Getenv(ThanosEnv), os.Getenv(HistoryEnv); p.Bin == "" {
		return p, fmt.Errorf("%s is not set: run the tests with make e2e, or a part of it", BinEnv)
	}
	return p, nil
}
