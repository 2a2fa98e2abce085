package status

import (
	_ "embed"
	"fmt"
	"html/template"

	"github.com/gpuledger/gpuledger/internal/style"
)

//go:embed frame.html
var frameHTML string

// SecurityPolicy is the Content-Security-Policy of all pages. The policy allows only the style
// sheet that is part of the pages.
var SecurityPolicy = fmt.Sprintf("default-src 'none'; style-src %s; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", style.Source(style.Sheet))

// frame defines the templates head and version. Each page begins with head and ends with version.
var frame = template.Must(template.New("frame").Funcs(template.FuncMap{
	"css": func() template.CSS { return template.CSS(style.Sheet) }, //nolint:gosec // safe, because the style sheet is a file of this program
}).Parse(frameHTML))

func framed(text string, functions template.FuncMap) *template.Template {
	return template.Must(template.Must(frame.Clone()).New("page").Funcs(functions).Parse(text))
}
