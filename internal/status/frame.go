package status

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
)

//go:embed frame.html
var frameHTML string

//go:embed page.css
var pageCSS string

// SecurityPolicy is the Content-Security-Policy of all pages. It allows only their style sheet.
var SecurityPolicy = fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", hash(pageCSS))

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// frame defines the templates head and version, which begin and end each page.
var frame = template.Must(template.New("frame").Funcs(template.FuncMap{
	"css": func() template.CSS { return template.CSS(pageCSS) }, //nolint:gosec // the file page.css
}).Parse(frameHTML))

// framed parses the template of a page.
func framed(text string, functions template.FuncMap) *template.Template {
	return template.Must(template.Must(frame.Clone()).New("page").Funcs(functions).Parse(text))
}
