package foldtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// API serves samples like Prometheus. It supports only the queries of the packages store and books.
type API struct {
	Store record
	// Hidden reports whether a sample is omitted. If Hidden is nil, all samples are served.
	Hidden func(labels map[string]string, at time.Time) bool
}

// record is a [Store] or a [Steady] fleet.
type record interface {
	// each calls the function f for all series that a query selects. Samples are in (after, until]. If the query uses
	// only the last sample of a series, the record may omit the other samples.
	each(q *query, after, until time.Time, f func(fold.Labels, []fold.Sample))
}

type result struct {
	Metric map[string]string `json:"metric"`
	Value  *sample           `json:"value,omitempty"`
	Values samples           `json:"values,omitempty"`
}

// The JSON of a sample is [seconds,"value"].
type (
	sample  fold.Sample
	samples []fold.Sample
)

func (s sample) appendTo(text []byte) []byte {
	text = append(strconv.AppendFloat(append(text, '['), float64(s.Time)/1000, 'f', -1, 64), `,"`...)
	return append(strconv.AppendFloat(text, s.Value, 'f', -1, 64), `"]`...)
}

// MarshalJSON implements [json.Marshaler].
func (s sample) MarshalJSON() ([]byte, error) { return s.appendTo(nil), nil }

// MarshalJSON implements [json.Marshaler]. It encodes all samples in one call, because a response may contain a million
// samples.
func (s samples) MarshalJSON() ([]byte, error) {
	text := []byte{'['}
	for i, x := range s {
		if i > 0 {
			text = append(text, ',')
		}
		text = sample(x).appendTo(text)
	}
	return append(text, ']'), nil
}

// ServeHTTP implements [http.Handler].
func (a API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/series"):
		a.labelsOf(w, r)
		return
	case strings.HasSuffix(r.URL.Path, "/query_range"):
		a.queryRange(w, r)
		return
	}
	seconds, err := strconv.ParseFloat(r.FormValue("time"), 64)
	evaluate, kind := a.parsed(r.FormValue("query"))
	if err != nil || evaluate == nil {
		http.Error(w, fmt.Sprintf("unsupported query %q at %q", r.FormValue("query"), r.FormValue("time")), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": kind, "result": evaluate(time.UnixMilli(int64(seconds * 1000)))}})
}

// parsed returns a function that evaluates a query at a time. The function is nil if the query is not supported.
func (a API) parsed(text string) (evaluate func(at time.Time) []result, kind string) {
	if sum := parseSum(text); sum != nil {
		return func(at time.Time) []result { return a.sums(sum, at) }, "vector"
	}
	q := parsed(text)
	switch {
	case q == nil:
		return nil, ""
	case q.last, q.samples:
		kind = "vector"
	default:
		kind = "matrix"
	}
	return func(at time.Time) []result { return a.results(q, at) }, kind
}

func moment(text string) time.Time {
	seconds, _ := strconv.ParseInt(text, 10, 64)
	return time.Unix(seconds, 0)
}

// labelsOf serves the labels of the series with samples in a period.
func (a API) labelsOf(w http.ResponseWriter, r *http.Request) {
	from, until := moment(r.FormValue("start")), moment(r.FormValue("end"))
	found := []map[string]string{}
	q := parsed(fmt.Sprintf("%s[%ds]", r.FormValue("match[]"), int(until.Sub(from).Seconds())))
	for _, one := range a.results(q, until) {
		found = append(found, one.Metric)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": found})
}

func (a API) queryRange(w http.ResponseWriter, r *http.Request) {
	step := moment(r.FormValue("step")).Sub(time.Unix(0, 0))
	matrix := make(map[string]*result)
	evaluate, kind := a.parsed(r.FormValue("query"))
	if kind != "vector" {
		http.Error(w, fmt.Sprintf("unsupported query %q", r.FormValue("query")), http.StatusBadRequest)
		return
	}
	for at := moment(r.FormValue("start")); !at.After(moment(r.FormValue("end"))); at = at.Add(step) {
		for _, one := range evaluate(at) {
			key := fmt.Sprint(one.Metric)
			if matrix[key] == nil {
				matrix[key] = &result{Metric: one.Metric}
			}
			matrix[key].Values = append(matrix[key].Values, fold.Sample(*one.Value))
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": slices.AppendSeq([]*result{}, maps.Values(matrix))}})
}

func (a API) results(q *query, at time.Time) []result {
	results := []result{}
	groups, counted := make(map[string]bool), 0
	a.Store.each(q, at.Add(-q.window), at, func(found fold.Labels, within []fold.Sample) {
		labels := make(map[string]string)
		for _, l := range found {
			labels[l.Name] = l.Value
		}
		if a.Hidden != nil {
			within = slices.DeleteFunc(within, func(x fold.Sample) bool { return a.Hidden(labels, time.UnixMilli(x.Time)) })
		}
		switch by := labels[q.by]; {
		case len(within) == 0:
		case q.count:
			counted++
		case q.group && groups[by]:
		case q.group:
			groups[by] = true
			results = append(results, result{Metric: map[string]string{q.by: by}, Value: value(at, 1)})
		case q.times:
			results = append(results, result{Metric: labels, Value: value(at, float64(within[len(within)-1].Time)/1000)})
		case q.samples:
			results = append(results, result{Metric: labels, Value: value(at, float64(len(within)))})
		case q.last:
			results = append(results, result{Metric: labels, Value: value(at, within[len(within)-1].Value)})
		default:
			results = append(results, result{Metric: labels, Values: within})
		}
	})
	if counted > 0 {
		results = append(results, result{Metric: map[string]string{}, Value: value(at, float64(counted))})
	}
	return results
}

func value(at time.Time, v float64) *sample { return &sample{at.UnixMilli(), v} }

// query is a selector with a window, such as m[1h]. It may be in last_over_time or count_over_time, which may be in
// group or count.
type query struct {
	times    bool // the values are the times of samples
	count    bool
	group    bool
	by       string // name of the label to group by; empty if the query does not group
	last     bool
	samples  bool   // the values are the numbers of samples
	metric   string // empty if any metric matches
	matchers []matcher
	window   time.Duration
}

type matcher struct {
	label  string
	values *expression
	not    bool
}

func (m *matcher) matches(value string) bool { return m.values.matches(value) != m.not }

// expression is a regular expression for a whole string. It caches its results, because tests repeat queries.
type expression struct {
	*regexp.Regexp
	answers sync.Map
}

func (e *expression) matches(value string) bool {
	answer, known := e.answers.Load(value)
	if !known {
		answer = e.MatchString(value)
		e.answers.Store(value, answer)
	}
	return answer.(bool)
}

var (
	form  = regexp.MustCompile(`^((?:group|count)(?: by \((\w+)\) )?\()?((?:last|count)_over_time\()?([\w:]*)(?:\{(.*)\})?\[(\w+)\]\)*$`)
	match = regexp.MustCompile(`(\w+)(=~?|!~)("(?:[^"\\]|\\.)*")`)
)

var expressions sync.Map

func compiled(values string) *expression {
	if known, ok := expressions.Load(values); ok {
		return known.(*expression)
	}
	known, _ := expressions.LoadOrStore(values, &expression{Regexp: regexp.MustCompile("^(?:" + values + ")$")})
	return known.(*expression)
}

// afterTimes returns the last operand of a query for the times of the last samples. If the query has another form, it
// returns the whole text and false.
func afterTimes(text string) (string, bool) {
	times, last, ok := strings.Cut(text, "[1h:1m]) or 0 * ")
	selector, isTimes := strings.CutPrefix(times, "max_over_time(timestamp(")
	if !ok || !isTimes || last != "last_over_time("+strings.TrimSuffix(selector, ")")+"[1h])" {
		return text, false
	}
	return last, true
}

// parsed returns nil if the query is not supported.
func parsed(text string) *query {
	text, times := afterTimes(text)
	m := form.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	window, err := model.ParseDuration(m[6])
	if err != nil {
		return nil
	}
	q := &query{
		count: strings.HasPrefix(m[1], "count"), group: strings.HasPrefix(m[1], "group"), by: m[2], last: strings.HasPrefix(m[3], "last"), samples: strings.HasPrefix(m[3], "count"), times: times,
		metric: m[4], window: time.Duration(window),
	}
	if m[4] != "" {
		q.matchers = append(q.matchers, matcher{label: "__name__", values: compiled(m[4])})
	}
	for _, x := range match.FindAllStringSubmatch(m[5], -1) {
		values, err := strconv.Unquote(x[3])
		if err != nil {
			return nil
		}
		if x[2] == "=" {
			values = regexp.QuoteMeta(values)
		}
		q.matchers = append(q.matchers, matcher{label: x[1], values: compiled(values), not: x[2] == "!~"})
	}
	return q
}

func (q *query) selects(labels fold.Labels) bool {
	return !slices.ContainsFunc(q.matchers, func(m matcher) bool { return !m.matches(labels.Get(m.label)) })
}

// The result is true if a query can select series with the given value of a label.
func (q *query) may(label, value string) bool {
	return !slices.ContainsFunc(q.matchers, func(m matcher) bool { return m.label == label && !m.matches(value) })
}
