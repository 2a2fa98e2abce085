package fleet

import (
	"fmt"
	"os"
	"testing"

	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// These environment variables name the folders of programs for tests, in addition to
// prometheus.Env: from make build, from Thanos, and from tools/history.
const (
	BinEnv     = "GPULEDGER_E2E_BIN"
	ThanosEnv  = "GPULEDGER_E2E_THANOS"
	HistoryEnv = "GPULEDGER_E2E_HISTORY"
)

// OpenFor opens a fleet with the programs in the environment. The fleet ends with the test, and
// prints the logs if the test failed.
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
