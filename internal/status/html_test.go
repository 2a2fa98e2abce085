package status_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/status"
)

// checkPage checks an HTML page, and returns the names of the elements on the page in order. The page must be
// well-formed XML, must not contain scripts, inline styles or external references, and must use each id only once.
func checkPage(t testing.TB, page []byte) (elements []string) {
	t.Helper()
	ids := make(map[string]bool)
	var references []string
	d := xml.NewDecoder(bytes.NewReader(page))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("page is not well-formed: %v", err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		elements = append(elements, e.Name.Local)
		if slices.Contains([]string{"script", "img", "iframe", "object", "base", "form"}, e.Name.Local) {
			t.Errorf("page has an element %s", e.Name.Local)
		}
		for _, a := range e.Attr {
			switch name := a.Name.Local; {
			case strings.HasPrefix(name, "on"), name == "style", name == "src":
				t.Errorf("element %s has the attribute %s", e.Name.Local, name)
			case name == "id":
				if ids[a.Value] {
					t.Errorf("id %q is not unique", a.Value)
				}
				ids[a.Value] = true
			case name == "aria-labelledby":
				references = append(references, strings.Fields(a.Value)...)
			case name == "fill":
				references = append(references, strings.TrimSuffix(strings.TrimPrefix(a.Value, "url(#"), ")"))
			case name == "href" && a.Value != "data:," && !strings.HasPrefix(a.Value, "./"):
				t.Errorf("page refers to %q", a.Value)
			}
		}
	}
	for _, r := range references {
		if !ids[r] {
			t.Errorf("no element has the id %q", r)
		}
	}
	return elements
}

func TestSecurityPolicy(t *testing.T) {
	_, page, _ := render(t, emptyNode())
	_, rest, _ := bytes.Cut(page, []byte("<style>"))
	css, _, _ := bytes.Cut(rest, []byte("</style>"))
	sum := sha256.Sum256(css)
	if want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(status.SecurityPolicy, want) {
		t.Errorf("policy is %q, want %q in it", status.SecurityPolicy, want)
	}
}
