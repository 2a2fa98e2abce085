package event_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/event"
)

func decode(text string) (all []event.Event, err error) {
	for e, err := range event.Decode(strings.NewReader(text)) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

// TestDecode checks that a logged line and a sent line lead to the same event.
func TestDecode(t *testing.T) {
	sent := `{"event":"condition","id":"u/condition/Ready","at":"2026-03-01T12:00:00.123456+01:00","namespace":"ml","pod":"p","pod_uid":"u","resource_version":"7","node":"a","owner_kind":"Job","owner_name":"j","to":"True","from":"False <&>","n":1e2}`
	logged := `{"time":"2026-03-01T11:00:01Z","msg":"gpu pod",` + sent[1:]
	want := event.Event{
		Kind: "condition", ID: "u/condition/Ready", At: time.Date(2026, 3, 1, 11, 0, 0, 123e6, time.UTC),
		Namespace: "ml", Pod: "p", PodUID: "u", ResourceVersion: "7", Node: "a", OwnerKind: "Job", OwnerName: "j",
		Details: json.RawMessage(`{"from":"False <&>","n":1e2,"to":"True"}`),
	}
	snapshot := event.Event{Kind: event.Snapshot, ID: "s", At: want.At, Object: json.RawMessage(`{"kind":"Pod"}`)}
	got, err := decode(sent + "\n\n" + logged + "\n" + `{"event":"snapshot","id":"s","at":"2026-03-01T11:00:00.123Z","object":{ "kind": "Pod" }}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]event.Event{want, want, snapshot}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestInvalid checks that the error for an invalid line contains the line number and the reason.
func TestInvalid(t *testing.T) {
	const valid = `{"event":"phase","id":"u","at":"2026-03-01T12:00:00Z"}` + "\n"
	tests := []struct{ name, line, want string }{
		{"no JSON", `at=now`, "invalid character"},
		{"no object", `null`, "at: "},
		{"two objects", `{} {}`, "more than one value"},
		{"no event", `{"id":"u","at":"2026-03-01T12:00:00Z"}`, "the event or the id is empty"},
		{"another case", `{"Event":"phase","id":"u","at":"2026-03-01T12:00:00Z"}`, "the event or the id is empty"},
		{"a number", `{"event":"phase","id":7,"at":"2026-03-01T12:00:00Z"}`, "id is not a string"},
		{"no time", `{"event":"phase","id":"u"}`, "at: "},
		{"a time before the year 0", `{"event":"phase","id":"u","at":"0001-01-01T00:00:00+02:00"}`, "at: year 0"},
		{"a long id", `{"event":"phase","id":"` + strings.Repeat("x", 256) + `","at":"2026-03-01T12:00:00Z"}`, "id has 256 bytes"},
		{"a long name", `{"event":"phase","id":"u","pod":"` + strings.Repeat("x", 1025) + `","at":"2026-03-01T12:00:00Z"}`, "pod has 1025 bytes"},
		{"a large number", `{"event":"phase","id":"u","at":"2026-03-01T12:00:00Z","n":1e999999}`, "number"},
		{"a long number", `{"event":"phase","id":"u","at":"2026-03-01T12:00:00Z","n":0.` + strings.Repeat("1", 1000) + `}`, "number"},
		{"a large number in an object", `{"event":"snapshot","id":"u","at":"2026-03-01T12:00:00Z","object":{"n":[-1e400]}}`, "number"},
		{"nested lists", `{"event":"phase","id":"u","at":"2026-03-01T12:00:00Z","x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "levels of nested objects"},
		{"long details", `{"event":"phase","id":"u","at":"2026-03-01T12:00:00Z","x":"` + strings.Repeat("x", 256<<10) + `"}`, "details have"},
		{"a long line", `{"event":"phase","id":"u","x":"` + strings.Repeat("x", event.MaxLine) + `"}`, "more than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, err := decode(valid + tt.line)
			if !errors.Is(err, event.ErrInvalid) || !strings.Contains(err.Error(), "line 2: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want an error for line 2 with %q", err, tt.want)
			}
			if len(all) != 1 {
				t.Errorf("%d events before the error, want 1", len(all))
			}
		})
	}
}

// TestInterrupted checks that an error of the reader does not count as an invalid line.
func TestInterrupted(t *testing.T) {
	broken := errors.New("broken")
	r := io.MultiReader(strings.NewReader(`{"event":"phase","id":"u","at":"2026-03-01T12:00:00Z"}`+"\n"+`{"event`), iotest.ErrReader(broken))
	n := 0
	for _, err := range event.Decode(r) {
		if err == nil {
			n++
		} else if !errors.Is(err, broken) || errors.Is(err, event.ErrInvalid) {
			t.Errorf("error is %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

func TestID(t *testing.T) {
	if got := event.ID("u", "phase", "Running"); got != "u/phase/Running" {
		t.Errorf("id is %s", got)
	}
	long := strings.Repeat("é", 200)
	a, b := event.ID("u", long, "a"), event.ID("u", long, "b")
	if len(a) > event.MaxID || a == b || !strings.HasPrefix(a, "u/éé") || a != event.ID("u", long, "a") || strings.ToValidUTF8(a, "?") != a {
		t.Errorf("ids are %q and %q", a, b)
	}
}

// TestTooLarge checks that Append rejects an event that the archive would reject.
func TestTooLarge(t *testing.T) {
	large := event.Event{Kind: event.Snapshot, ID: "u", Object: json.RawMessage(`"` + strings.Repeat("x", event.MaxLine) + `"`)}
	if b, err := large.Append([]byte("before")); err == nil || string(b) != "before" {
		t.Errorf("%d bytes, error %v", len(b), err)
	}
}

// FuzzDecode checks that a decoded event is within the limits. If it is encoded and decoded again, it must not change.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"event":"condition","id":"u/é","at":"2026-03-01T12:00:00.1+01:00","pod":"p","a":{"b":[1,"\u0000",null,1e99]},"object":{"x":"\ud800"}}`))
	f.Add([]byte("{\"event\":\"\xff\",\"id\":\"u\",\"at\":\"9999-12-31T23:59:59-01:00\",\"time\":1}\n{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for e, err := range event.Decode(bytes.NewReader(text)) {
			if err != nil {
				return
			}
			line, err := e.Append(nil)
			if err != nil {
				t.Fatalf("%+v: %v", e, err)
			}
			var all any
			if err := json.Unmarshal(line, &all); err != nil || strings.Contains(fmt.Sprint(all), "\x00") || bytes.IndexByte(line, '\n') != len(line)-1 {
				t.Errorf("line %q: %v", line, err)
			}
			again, err := decode(string(line))
			if err != nil || len(again) != 1 {
				t.Fatalf("%q: %d events, %v", line, len(again), err)
			}
			if diff := cmp.Diff(e, again[0]); diff != "" {
				t.Errorf("%q (-first +second):\n%s", line, diff)
			}
		}
	})
}
