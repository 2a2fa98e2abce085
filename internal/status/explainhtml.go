package status

import (
	_ "embed"
	"html/template"
	"io"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

//go:embed explain.html
var explainHTML string

var explainTemplate = framed(explainHTML, template.FuncMap{"joules": joules})

// ExplanationHTML writes an explanation as an HTML page in UTF-8.
func ExplanationHTML(w io.Writer, e *Explanation, version string) error {
	return explainTemplate.Execute(w, struct {
		*Explanation
		JSON, Version string
	}{e, "." + ExplainPath + "?" + e.asked.Values().Encode(), version})
}

//go:embed refused.html
var refusedHTML string

var refusedTemplate = framed(refusedHTML, nil)

// QueryErrorHTML writes an error in a query as an HTML page in UTF-8.
func QueryErrorHTML(w io.Writer, e QueryError, version string) error {
	return refusedTemplate.Execute(w, struct{ Error, Version string }{labelvalue.Printable(string(e)), version})
}

func (g *GPU) explainLink(c Container) string {
	if !g.Explained || c.Energy == nil {
		return ""
	}
	return "." + ExplainPagePath + "?" + Query{GPU: g.UUID, Owner: c.fullName(), Since: DefaultSince}.Values().Encode()
}

func (c *Container) fullName() string {
	switch {
	case c.Unit != "":
		return c.Manager + "/" + c.Unit
	case c.Container == "":
		return c.Namespace + "/" + c.Pod
	}
	return c.Namespace + "/" + c.Pod + "/" + c.Container
}
