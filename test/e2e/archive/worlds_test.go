//go:build e2e

package archive_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/promdoc"
	"github.com/gpuledger/gpuledger/test/prometheus"
	"github.com/gpuledger/gpuledger/test/worlds"
)

// subject is a history from the tests of the documented queries, with questions about it.
type subject struct {
	name      string
	history   *worlds.History
	until     time.Duration
	accept    bool     // set if missing samples must be accepted
	refused   bool     // set if the archive refuses an hour
	serials   []string // serial numbers of boards
	late      []string // serial numbers that become known late; the queries find only later nodes and slots of these boards
	questions []string
}

// onWorlds lists the questions that do not name a board. Method all adds the questions about each board.
func onWorlds() []subject {
	random := rand.New(rand.NewPCG(3, 7))
	boards := []string{"S1", "S2", "S3", "S4", "S5", "S6", "S8"}
	fleet := []string{"S0", "S1", "S2", "S3"}
	return []subject{
		{"boards", worlds.Boards(), 10 * worlds.Daily, false, false, boards, nil, []string{
			"where a", "where C2", "where GPU-7", "where S1 --at=2026-03-03T12", "where b --at=2026-03-04T12", "history C1", "history GPU-7", "ran --pod=beta/old", "ran S2 --at=2026-03-02T12",
		}},
		{"late", worlds.Late(), 31 * time.Hour, true, false, []string{"S1", "S2", "S3", "S4", "S7"}, []string{"S5", "S6"}, []string{"where renamed", "history GPU-young", "ran --pod=twice/twice"}},
		{"day", worlds.Statements().History, 26 * time.Hour, false, true, fleet[1:], nil, []string{"where b", "ran --unit=slurm/4711", "ran --unit=docker/vision", "ran --workload=alpha/Job/train"}},
		{"random", worlds.RandomFleet(random, "").History, worlds.RandomHours * time.Hour, false, false, fleet, nil, []string{"where a", "ran --pod=team-1/pod-1"}},
	}
}

// TestAskWorlds checks that questions about boards have equal answers from several stores: a Prometheus that contains
// duplicates, PostgreSQL, and Parquet files in a folder and in a bucket. In the histories, boards move and are swapped,
// and samples have gaps and restarts.
func TestAskWorlds(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run it with make e2e")
	}
	t.Parallel()
	group := program.OpenFor(t)
	database := startPostgres(t)
	_, endpoint := bucket(t, group)
	doc, err := promdoc.Read("../../../docs/queries.md")
	check(t, err)
	for _, w := range onWorlds() {
		t.Run(w.name, func(t *testing.T) {
			end := worlds.Began.Add(w.until)
			live := started(t, loaded(t, prometheus.Env, group, w.name, w.history.OpenMetrics())).URL()
			single := live
			if once := w.history.Without(`prometheus_replica="2"`); len(once.Series) < len(w.history.Series) {
				single = started(t, loaded(t, prometheus.Env, group, w.name+"-once", once.OpenMetrics())).URL() // the archive refuses samples of replicas
			}
			folder := t.TempDir()
			url, _ := database.create(t, w.name)
			args := []string{"once", "--until=" + end.Format(time.RFC3339)}
			if w.accept {
				args = []string{"accept", "east", "--to=" + end.Format(time.RFC3339), "--reason=exporters were down"}
			}
			args = append(args, "--cluster=east", "--folder="+folder, "--folder.format=parquet", "--postgres.url="+url,
				"--store.url="+single, "--from="+worlds.Began.Add(-time.Hour).Format(time.RFC3339))
			sources := map[string][]string{
				"Prometheus": {"--cluster=east", "--store.url=" + live}, "Parquet": {"--books=" + folder}, "PostgreSQL": {"--books=" + url},
			}
			if w.until < 2*worlds.Daily { // an hour needs many requests
				args = append(args, "--s3.endpoint="+endpoint, "--s3.url=s3://assets/"+w.name)
				sources["S3"] = []string{"--books=s3://assets/" + w.name, "--s3.endpoint=" + endpoint}
			}
			if out, err := exec.Command(binary(), args...).CombinedOutput(); (err != nil) != w.refused {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, question := range w.all() {
				w.compare(t, question, end, sources)
			}
			for _, serial := range w.serials {
				compareStays(t, doc, live, serial, end, sources)
			}
		})
	}
}

func (w subject) all() []string {
	all := slices.Concat(w.questions, []string{
		"moves --since=20d", "missing", "statement --by=serial --from=2026-03-01", "statement --by=node --from=2026-03-01", "verify --from=2026-03-01",
	})
	for _, serial := range slices.Concat(w.serials, w.late) {
		all = append(all, "where "+serial, "history "+serial, "ran "+serial)
	}
	return append(all, "report "+w.serials[0])
}

func (w subject) compare(t *testing.T, question string, end time.Time, sources map[string][]string) {
	t.Helper()
	answers := make(map[string]any)
	for name, source := range sources {
		words := append(until(question, end.Format(time.RFC3339)), source...)
		report := strings.HasPrefix(question, "report")
		if !report {
			words = append(words, "-o", "json")
		}
		a := ask(t, words...)
		if a.status != 0 && !strings.HasPrefix(question, "verify") { // some hours are missing
			t.Errorf("%s, %s: exit status %d: %s", question, name, a.status, a.errors)
		}
		for _, row := range a.Rows {
			for _, filed := range []string{"complete", "gap_hours", "ok"} { // columns that only the archive returns
				delete(row, filed)
			}
		}
		answers[name] = a.Rows
		if report {
			page, _, _ := strings.Cut(a.out, "## About this page")
			_, page, _ = strings.Cut(page, "## Asset") // the answer of the command where is compared separately
			answers[name] = strings.Split(page, "\n")
		}
	}
	if strings.HasPrefix(question, "where") {
		checkHolders(t, question, answers)
	}
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		if diff := cmp.Diff(answers["Prometheus"], answers[name]); diff != "" {
			t.Errorf("%s (-Prometheus +%s):\n%s", question, name, diff)
		}
	}
	if fmt.Sprint(answers["Prometheus"]) == "[]" && question != "missing" && !strings.HasPrefix(question, "ran S") {
		t.Errorf("%s has no rows", question)
	}
}

// checkHolders checks the columns of holders. The archive must return every holder that Prometheus returns. Each holder
// or past holder that the archive returns must be a holder or a past holder in Prometheus. Prometheus can return more
// past holders, because exporters still serve owners that ended in the previous hour. At the end, checkHolders removes
// these columns from the answers, so that the caller can compare the other columns.
func checkHolders(t *testing.T, question string, answers map[string]any) {
	t.Helper()
	names := func(row map[string]any, column string) []string { return strings.Fields(row[column].(string)) }
	live := answers["Prometheus"].([]map[string]any)
	for name, answer := range answers {
		for i, row := range answer.([]map[string]any) {
			if i >= len(live) || name == "Prometheus" {
				continue
			}
			now, filed := names(live[i], "holders"), slices.Concat(names(row, "holders"), names(row, "past_holders"))
			for _, holder := range now {
				if !slices.Contains(names(row, "holders"), holder) {
					t.Errorf("%s, %s: %s is no holder in %v", question, name, holder, row)
				}
			}
			for _, holder := range filed {
				if !slices.Contains(now, holder) && !slices.Contains(names(live[i], "past_holders"), holder) {
					t.Errorf("%s: %s is a holder in %s only: %v", question, holder, name, live[i])
				}
			}
		}
	}
	for _, answer := range answers {
		for _, row := range answer.([]map[string]any) {
			delete(row, "holders")
			delete(row, "past_holders")
		}
	}
}

// compareStays compares the command history with the documented queries about the nodes and slots of a board.
func compareStays(t *testing.T, doc promdoc.Doc, store, serial string, end time.Time, sources map[string][]string) {
	t.Helper()
	rows := ask(t, append([]string{"history", serial, "--to=" + end.Format(time.RFC3339), "-o", "json"}, sources["Parquet"]...)...).Rows
	for title, column := range map[string]string{"When was a board first seen in each place": "first_seen", "When was a board last seen in each place": "last_seen"} {
		text, err := doc.Query(title, map[string]string{"serial": serial})
		check(t, err)
		found, err := prometheus.Query(t.Context(), store, text, end)
		check(t, err)
		want, got := make(map[string]string), make(map[string]string)
		for _, s := range found {
			want[s.Labels["node"]+" "+s.Labels["UUID"]+" "+s.Labels["chassis_slot"]] = time.Unix(int64(s.Value), 0).UTC().Format("2006-01-02T15:04:05.000Z")
		}
		for _, row := range rows {
			place := fmt.Sprintf("%v %v %v", row["node"], row["uuid"], row["chassis_slot"])
			place = strings.Replace(place, "<nil>", "", 1)
			at := row[column].(string)
			if known, ok := got[place]; !ok || column == "first_seen" && at < known || column == "last_seen" && at > known {
				got[place] = at
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Errorf("%s: %s (-documented query +history):\n%s", serial, title, diff)
		}
	}
}
