package web_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/archive/web"
)

// hostile contains labels that could add elements to a page if they were not escaped.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`, "{{.Version}}", "</td></table>", "\u202eevil\u202c", "مرحبا", strings.Repeat("long", 60), "a&amp;b", "--books=/etc/passwd",
}

var tags = "html head meta title link body a header nav ul li h1 h2 p main form label input select option button section dl div dt dd svg rect figure figcaption span table thead tbody tr th td bdi code kbd footer textarea"

// TestHostile checks that labels are visible on pages, and that they add no element, attribute or link.
func TestHostile(t *testing.T) {
	for _, label := range hostile {
		h := pages(t, web.Config{Pages: true}, archiveSince(t, hours-6, func(h *table.Hour) { // the board moves in these hours
			h.GPUs[0].XIDs = table.Counts{"79": 2}
			for i := range h.GPUs {
				h.GPUs[i].Node, h.GPUs[i].Serial, h.GPUs[i].Model, h.GPUs[i].ChassisSlot = label, label, label, label
			}
			for i := range h.Charges {
				c := &h.Charges[i]
				c.Node, c.Serial = label, label
				if c.Reason == "" {
					c.Team, c.Namespace, c.Pod, c.WorkloadName = label, label, label, label
				}
			}
		}))
		escaped := url.PathEscape(label)
		for _, page := range []string{
			"/statement/2026-10?by=team,workload,node", "/idle/2026-10", "/fleet/2026-10", "/moves/2026-10", "/board/" + escaped, "/where/" + escaped, "/history/GPU-1",
			"/ran?pod=" + url.QueryEscape(label+"/"+label), "/statement/2026-10?by=" + escaped, "/statement/" + escaped, "/ran?" + escaped + "=1", "/where/" + escaped + "x",
		} {
			body := get(t, h, page).Body.String()
			for _, e := range parse(t, body) {
				name := e.name
				if !strings.Contains(" "+tags+" ", " "+name+" ") && !(name == "title" && strings.Contains(e.within, "svg")) {
					t.Fatalf("%s of %q has an element %s:\n%s", page, label, name, body)
				}
				for attribute, value := range e.attributes {
					if strings.HasPrefix(attribute, "on") || attribute == "style" || attribute == "src" || strings.HasPrefix(strings.TrimSpace(value), "javascript:") {
						t.Fatalf("%s of %q has an attribute %s=%q", page, label, attribute, value)
					}
				}
			}
		}
		shown := strings.NewReplacer("\u202e", `\u202e`, "\u202c", `\u202c`).Replace(label)
		found := false
		for _, row := range tables(t, get(t, h, "/statement/2026-10").Body.String())[0] {
			found = found || row[0] == shown
		}
		if !found {
			t.Errorf("a statement does not show the team %q", shown)
		}
	}
}

// TestPolicy checks that a page loads nothing but its style sheet. It must not contain inline styles or scripts.
func TestPolicy(t *testing.T) {
	h := pages(t, web.Config{Pages: true}, archive(t, nil))
	get(t, h, "/nothing/at/all").has(http.StatusNotFound)
	for _, page := range []string{"/", "/statement/2026-10", "/board/1653924023101", "/fleet/2026-10", "/where/none"} {
		r := get(t, h, page)
		if policy := r.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'; style-src 'self';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", page, policy)
		}
		for _, e := range parse(t, r.Body.String()) {
			if e.name == "style" || e.name == "script" || e.attributes["style"] != "" {
				t.Errorf("%s has an element %s with the style %q", page, e.name, e.attributes["style"])
			}
		}
	}
	report := get(t, h, "/board/1653924023101?o=html")
	if policy := report.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "style-src 'sha256-") || !strings.Contains(report.Body.String(), "<style>") {
		t.Errorf("the report: policy %q", policy)
	}
	get(t, h, "/style.css").has(http.StatusOK, "prefers-color-scheme: dark")
}

func TestSearch(t *testing.T) {
	h := pages(t, web.Config{Pages: true}, archive(t, nil))
	for name, want := range map[string]string{
		"1653924023101": "board/1653924023101", "GPU-2": "board/GPU-2", "n1": "where/n1", "C-n2": "where/C-n2", "1653924023102\n": "board/1653924023102",
		"vision-ns/vision-pod": "ran?pod=vision-ns%2Fvision-pod", "vision-job": "ran?workload=vision-job", "Job/search-job": "ran?workload=Job%2Fsearch-job",
	} {
		r := get(t, h, "/search?q="+url.QueryEscape(name))
		if location := r.Header().Get("Location"); r.Code != http.StatusSeeOther || location != want {
			t.Errorf("%q: status %d, location %q, want %q\n%s", name, r.Code, location, want, r.Body)
			continue
		}
		get(t, h, "/"+want).has(http.StatusOK)
	}
	get(t, h, "/search?q=16539240231").has(http.StatusNotFound, "search?q=1653924023101", "search?q=1653924023102")
}

// TestList checks the search for a list of names, and the limits of the list.
func TestList(t *testing.T) {
	h := pages(t, web.Config{Pages: true}, archive(t, nil))
	post := func(values url.Values) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/search", strings.NewReader(values.Encode())))
		return w
	}
	list := "1653924023101\r\n1653924023102, unknown-1"
	page := post(url.Values{"q": {list}})
	if rows := tables(t, page.Body.String()); page.Code != http.StatusOK || len(rows) != 1 || len(rows[0]) != 4 {
		t.Fatalf("status %d\n%s", page.Code, page.Body)
	}
	table := post(url.Values{"q": {list}, "o": {"csv"}})
	if lines := strings.Count(table.Body.String(), "\n"); table.Code != http.StatusOK || lines != 4 || !strings.HasPrefix(table.Body.String(), "name,serial,") {
		t.Errorf("CSV: status %d\n%s", table.Code, table.Body)
	}
	for n, status := range map[int]int{500: http.StatusOK, 501: http.StatusBadRequest, 20_000: http.StatusBadRequest} {
		if w := post(url.Values{"q": {strings.Repeat("1653924023101\n", n)}}); w.Code != status {
			t.Errorf("%d names: status %d, want %d", n, w.Code, status)
		}
	}
}

// TestParameters checks that parameters cannot select files, archives or stores. A flag in place of a name must be
// rejected.
func TestParameters(t *testing.T) {
	h := pages(t, web.Config{Pages: true}, archive(t, nil))
	for _, page := range []string{
		"/statement?books=/etc", "/statement?config=/etc/passwd", "/statement?prices=/etc/passwd", "/statement?assets=/etc/passwd", "/statement?store.url=http://127.0.0.1", "/where/n1?names=/etc/passwd",
		"/statement?by=team&by=node", "/statement?month=2026-13", "/statement/october", "/moves/october", "/statement?month=2026-10&since=7d", "/statement/2026-10?o=pdf", "/ran", "/?q=1", "/verify?prove=true", "/statement/2027-01",
	} {
		get(t, h, page).has(http.StatusBadRequest)
	}
	for _, name := range []string{"--books=x", "-", "-o", "--"} {
		get(t, h, "/where/"+url.PathEscape(name)).has(http.StatusNotFound)
	}
}

// TestServed checks pages on the HTTP server of all programs: a relative redirect, a list, and the header of the proxy.
func TestServed(t *testing.T) {
	address := served(t, pages(t, scoped(t, strings.Replace(scopes, "10.0.0.0/8", "127.0.0.0/8", 1)), archive(t, nil)))
	do := func(method, path, group string, body url.Values) (status int, text string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, address+path, strings.NewReader(body.Encode()))
		check(t, err)
		r.Header.Set("X-Forwarded-Groups", group)
		response, err := http.DefaultClient.Do(r)
		check(t, err)
		defer response.Body.Close()
		all, err := io.ReadAll(response.Body)
		check(t, err)
		return response.StatusCode, string(all)
	}
	if status, body := do(http.MethodGet, "/search?q=1653924023101", "finance", nil); status != http.StatusOK || !strings.Contains(body, "<h1>Board 1653924023101</h1>") {
		t.Errorf("search: status %d\n%s", status, body)
	}
	if status, _ := do(http.MethodGet, "/", "guests", nil); status != http.StatusForbidden {
		t.Errorf("an unknown group: status %d", status)
	}
	if status, body := do(http.MethodPost, "/search", "finance", url.Values{"q": {"1653924023101 1653924023102"}}); status != http.StatusOK || strings.Count(body, "<tr>") != 3 {
		t.Errorf("list: status %d\n%s", status, body)
	}
}
