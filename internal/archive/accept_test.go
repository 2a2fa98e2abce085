package archive

import (
	"errors"
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// If an accepted hour is read again, it must keep its state and reason, even if late samples have arrived. It must not
// be replaced as long as one of its nodes has no samples in the store.
func TestAcceptedAgain(t *testing.T) {
	f := newFiling(t, life{machines: pool(6, 0, always)})
	lost := map[string]bool{"n0-0": true, "n0-1": true, "n0-2": true}
	f.hidden = func(labels map[string]string, at time.Time) bool {
		return lost[labels["node"]] && at.After(noon.Add(time.Hour)) && at.Before(noon.Add(2*time.Hour+time.Second))
	}
	hours := []string{"once", "--again", "--from=2026-03-01T12", "--until=2026-03-01T15"}
	if err := f.once(190, hours...); err == nil {
		t.Error("a fault is not refused")
	}
	f.accept(191)
	for _, step := range []struct {
		lost                  []string
		err                   bool
		state, revision, gpus string
	}{
		{[]string{"n0-0", "n0-1", "n0-2"}, false, "gaps", "1", "3"},
		{[]string{"n0-0", "n0-1", "n0-2", "n0-3"}, true, "gaps", "1", "3"},
		{[]string{"n0-0", "n0-1"}, false, "gaps", "2", "4"},
		{nil, false, "complete", "3", "6"},
		{[]string{"n0-0"}, true, "complete", "3", "6"},
	} {
		clear(lost)
		for _, node := range step.lost {
			lost[node] = true
		}
		if err := f.once(192, hours...); (err != nil) != step.err {
			t.Errorf("without %s: error %v", step.lost, err)
		}
		row := f.rows()[1]
		if row["state"] != step.state || row["revision"] != step.revision || row["gpus"] != step.gpus {
			t.Errorf("without %s: state %s, revision %s, %s GPUs, want %+v", step.lost, row["state"], row["revision"], row["gpus"], step)
		}
		if (row["reason"] == "the owner removed nodes") != (step.state == "gaps") {
			t.Errorf("without %s: reason %q", step.lost, row["reason"])
		}
	}
}

// After an operator has accepted the removal of a cluster, later hours must need no command. The archive must stop
// writing hours of the cluster two days later.
func TestGoneCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	f := newFiling(t, life{machines: pool(2, 0, 100)})
	from := "--from=" + noon.Format(time.RFC3339)
	if err := f.once(190, "once", from); err == nil {
		t.Error("a removed cluster is not refused")
	}
	f.accept(191)
	const days = 3 * 24
	for hour := 4; hour < days; hour += 4 {
		if err := f.once(hour*60+6, "once", from); errors.Is(err, ErrIncomplete) {
			t.Errorf("%d hours later: %v\n%s", hour, err, f.log.String())
		}
	}
	// Hour 1 is the last hour with samples.
	if got, want := len(f.rows()), 2+48; got != want {
		t.Errorf("%d hours are filed, want %d", got, want)
	}
	for _, row := range f.rows()[1:] {
		if row["state"] != "gaps" || row["reason"] != "the owner removed nodes" {
			t.Errorf("an hour has the state %s and the reason %q", row["state"], row["reason"])
		}
	}
}

// The last nodes are removed at the end of an hour, and their Node objects are deleted a moment later. The hour must be
// archived without a command.
func TestRemovedAtTheEnd(t *testing.T) {
	f := newFiling(t, life{machines: pool(2, 0, 179), lists: ksm})
	for _, minute := range []int{185, 187, 191, 197} {
		_ = f.once(minute, "once", "--from="+noon.Format(time.RFC3339))
	}
	if err := f.once(246, "once", "--from="+noon.Format(time.RFC3339)); err != nil || len(f.rows()) != 4 {
		t.Errorf("error %v, %d hours are filed, want 4:\n%s", err, len(f.rows()), f.log.String())
	}
}

// If a cluster was down for more than two days, a single command must archive its hours.
func TestLongMaintenance(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	const down, up, end = 90, 53 * 60, 56
	l := life{machines: pool(2, 0, always), dark: [2]int{down, up}, minutes: end*60 + 30}
	f := newFiling(t, l)
	from := "--from=" + noon.Format(time.RFC3339)
	for _, minute := range []int{60 + 6, 130, 52 * 60, end*60 + 6} {
		_ = f.once(minute, "once", from)
	}
	if got := len(f.rows()); got == end {
		t.Error("all hours are filed without a command")
	}
	f.accept(end*60 + 7)
	if got := len(f.rows()); got != end {
		t.Errorf("%d hours are filed, want %d:\n%s", got, end, f.log.String())
	}
}

func TestUnknownCluster(t *testing.T) {
	f := newFiling(t, life{machines: pool(2, 0, always)})
	if err := f.once(130, "accept", "esat", "--from=2026-03-01T12", "--to=2026-03-01T14", "--reason=typing error"); err == nil || f.rows() != nil {
		t.Errorf("error %v, rows %v", err, f.rows())
	}
}

func TestCommand(t *testing.T) {
	const cluster = `it's "$HOME" \ 1; exit`
	r := newRefusals(newMetrics().refused, slog.New(slog.DiscardHandler))
	silent := &refusal{errSilent, true}
	for _, hour := range []int{-4, 0, 1, 2} {
		r.add(refusedHour{cluster, noon.Add(time.Duration(hour) * time.Hour), "folder"}, time.Time{}, silent)
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(r.command(refusedHour{cluster, noon.Add(2 * time.Hour), "folder"}, time.Time{}), "gpuledger-archive "), " with ")
	out, err := exec.Command("sh", "-c", `printf '%s\n' `+text).Output()
	want := "accept\n" + cluster + "\n--from=2026-03-01T12\n--to=2026-03-01T15\n--reason=REASON\n"
	if string(out) != want || err != nil {
		t.Errorf("the shell passes %q, error %v, want %q", out, err, want)
	}
	for newest, from := range map[int]string{-10: "2026-03-01T03", 1: "2026-03-01T12", -24 * 30: "2026-03-01T12"} {
		text := r.command(refusedHour{cluster, noon.Add(2 * time.Hour), "folder"}, noon.Add(time.Duration(newest)*time.Hour))
		if !strings.Contains(text, "--from="+from+" ") {
			t.Errorf("hour %d is filed: %s, want --from=%s", newest, text, from)
		}
	}
}
