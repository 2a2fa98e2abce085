package dcgm_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// TestNativeMemory makes calls on many OS threads, as a long-running exporter does. The library's messages of 4 MB must
// not stay allocated for each thread.
func TestNativeMemory(t *testing.T) {
	const threads, most = 20, 24 // MiB
	e := newEngine(t, gputest.Full(0))
	e.cfg.Fields = parse(t, temperature)
	s := e.open()
	before := resident(t)
	e.readAll(s)
	done := make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait()
	defer close(done)
	for range threads {
		called := make(chan error)
		group.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			of := []godcgm.GroupEntityPair{{EntityGroupId: godcgm.FE_GPU}}
			_, err := godcgm.EntitiesGetLatestValues(of, []godcgm.Short{godcgm.DCGM_FI_DEV_GPU_TEMP_CELSIUS}, 0)
			called <- err
			<-done // keeps the thread occupied, so that other calls use other threads
		})
		if err := <-called; err != nil {
			t.Fatal(err)
		}
	}
	grown := resident(t) - before
	t.Logf("the process grew by %d MiB after reads from %d threads", grown, threads)
	if grown > most {
		t.Errorf("want at most %d", most)
	}
}

func resident(t *testing.T) int {
	t.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() >> 20
}
