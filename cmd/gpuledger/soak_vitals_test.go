//go:build e2e && realtime

package main_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

type vital struct {
	at                         time.Duration
	resident, driver, heap     float64 // in MiB; driver is the part of resident that the driver library allocated
	goroutines, files, threads float64
}

func (s *soak) measure() {
	process, err := procfs.NewProc(s.cmd.Process.Pid)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.every(500*time.Millisecond, func() {
		stat, err := process.Stat()
		if err != nil {
			s.t.Error(err)
			return
		}
		files, err := process.FileDescriptorsLen()
		if err != nil {
			s.t.Error(err)
			return
		}
		driver, err := mallocked(s.cmd.Process.Pid)
		if err != nil {
			s.t.Error(err)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.vitals = append(s.vitals, vital{
			at: time.Since(s.began), resident: float64(stat.ResidentMemory()) / mebi, driver: driver,
			heap: s.heap, goroutines: s.goroutines, files: float64(files), threads: float64(stat.NumThreads),
		})
	})
}

// mallocked returns the resident size of malloc's heap, in MiB. The fake driver parses its state file into this heap
// after each change.
func mallocked(pid int) (float64, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return 0, err
	}
	_, heap, _ := strings.Cut(string(maps), "[heap]")
	_, resident, found := strings.Cut(heap, "\nRss:")
	if !found {
		return 0, errors.New("the exporter has no malloc heap")
	}
	var kib float64
	_, err = fmt.Sscan(resident, &kib)
	return kib / 1024, err
}

// The exporter must use little memory. Its memory must not grow in the second half of the day. After the day, its
// memory must not be larger than before the day.
func (s *soak) checkVitals(d day) {
	s.t.Helper()
	quarter := (d.end - calm) / 4
	calmly, third, fourth := s.during(calm/2, calm), s.during(d.end-2*quarter, d.end-quarter), s.during(d.end-quarter, d.end)
	day, resting := s.during(calm, d.end), s.during(d.end+rest-20*time.Second, d.end+rest)
	for name, part := range map[string]vitals{"calm": calmly, "day": day, "third quarter": third, "fourth quarter": fourth, "rest": resting} {
		s.t.Logf("%s: %s", name, part)
	}
	if most := slices.Max(day.exporter()); most > mostResident {
		s.t.Errorf("up to %.1f MiB resident without the fake driver's memory, want at most %v", most, mostResident)
	}
	grown := mean(fourth.exporter()) - mean(third.exporter())
	switch storms := quarter / (stormSpan + stormPause); {
	case storms < 2:
		s.t.Logf("a quarter of the day has %d storms, which is too few to detect growth", storms)
	case grown > mostGrowth:
		s.t.Errorf("the exporter grew by %.1f MiB from the third quarter of the day to the fourth", grown)
	}
	if kept := mean(resting.heap()) - mean(calmly.heap()); kept > mostKept {
		s.t.Errorf("the live heap is larger by %.1f MiB after the day than before it", kept)
	}
	held := map[string]func(vitals) []float64{"goroutines": vitals.goroutines, "open files": vitals.files}
	for what, of := range held {
		if was, is := slices.Max(of(calmly)), slices.Min(of(resting)); is > was {
			s.t.Errorf("%v %s after the day, %v before it", is, what, was)
		}
	}
}

type vitals []vital

func (s *soak) during(from, to time.Duration) vitals {
	s.t.Helper()
	part := slices.DeleteFunc(slices.Clone(s.vitals), func(v vital) bool { return v.at < from || v.at >= to })
	if len(part) == 0 {
		s.t.Fatalf("no measurements between %v and %v", from, to)
	}
	return part
}

func (v vitals) values(what func(vital) float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = what(v[i])
	}
	return out
}

func (v vitals) resident() []float64 { return v.values(func(v vital) float64 { return v.resident }) }

func (v vitals) exporter() []float64 {
	return v.values(func(v vital) float64 { return v.resident - v.driver })
}
func (v vitals) driver() []float64 { return v.values(func(v vital) float64 { return v.driver }) }
func (v vitals) heap() []float64   { return v.values(func(v vital) float64 { return v.heap }) }
func (v vitals) goroutines() []float64 {
	return v.values(func(v vital) float64 { return v.goroutines })
}
func (v vitals) files() []float64   { return v.values(func(v vital) float64 { return v.files }) }
func (v vitals) threads() []float64 { return v.values(func(v vital) float64 { return v.threads }) }

func (v vitals) String() string {
	three := func(f []float64) string {
		return fmt.Sprintf("%.1f %.1f %.1f", slices.Min(f), mean(f), slices.Max(f))
	}
	return fmt.Sprintf("resident %s MiB, including %s MiB of the fake driver; live heap %s MiB; %s goroutines, %s files, %s threads",
		three(v.resident()), three(v.driver()), three(v.heap()), three(v.goroutines()), three(v.files()), three(v.threads()))
}

func mean(f []float64) float64 {
	var sum float64
	for _, v := range f {
		sum += v
	}
	return sum / float64(len(f))
}
