package fleet

import (
	"fmt"
	"os"
	"testing"

	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// These environment variables contain folders of programs for tests: Thanos, and the programs in tools/history.
// prometheus.Env and program.BinEnv contain the folders of other programs.
const (
	ThanosEnv  = "GPULEDGER_E2E_THANOS"
	HistoryEnv = "GPULEDGER_E2E_HISTORY"
)

// OpenFor opens a fleet with the programs in the environment variables. The fleet ends with the test, and prints its
// logs if the test failed.
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
	if p.Bin, p.Thanos, p.History = os.Getenv(program.BinEnv), os.Getenv(ThanosEnv), os.Getenv(HistoryEnv); p.Bin == "" {
		return p, fmt.Errorf("%s is not set: run the tests with make e2e, or a part of it", program.BinEnv)
	}
	return p, nil
}
