package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Stage is one stage of a Dockerfile.
type Stage struct {
	// Labels, Env, Ports, User and Entrypoint are the image's configuration. A port has the form 9841/tcp.
	Labels     map[string]string
	Env, Ports []string
	User       string
	Entrypoint []string
	Copies     []Copy

	args, given map[string]string
}

// Copy is a COPY instruction that copies a file or folder from another stage.
type Copy struct {
	From string // path in the other stage
	To   string // path in the image
}

// Folder reports whether From is a folder. Copy then copies its content.
func (c Copy) Folder() bool { return strings.HasSuffix(c.To, "/") }

// ParseStage returns a stage of a Dockerfile with the given values for the build arguments. The stage must start from
// scratch. ParseStage rejects instructions and options that this package cannot reproduce.
func ParseStage(dockerfile, name string, args map[string]string) (*Stage, error) {
	var s *Stage
	for _, line := range instructions(dockerfile) {
		word, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		if word == "FROM" {
			if s != nil {
				break
			}
			fields := strings.Fields(rest)
			if fields[len(fields)-1] != name {
				continue
			}
			if fields[0] != "scratch" {
				return nil, fmt.Errorf("stage %s starts from %s, not from scratch", name, fields[0])
			}
			s = &Stage{Labels: make(map[string]string), args: make(map[string]string), given: args}
			continue
		}
		if s == nil {
			continue
		}
		if err := s.add(word, rest); err != nil {
			return nil, fmt.Errorf("stage %s: %s: %w", name, line, err)
		}
	}
	if s == nil {
		return nil, fmt.Errorf("the Dockerfile has no stage %s", name)
	}
	return s, nil
}

// instructions returns the lines of a Dockerfile without comments. It joins a line that ends in a backslash with the
// next line.
func instructions(dockerfile string) []string {
	var out []string
	open := false
	for line := range strings.Lines(dockerfile) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		text, more := strings.CutSuffix(line, `\`)
		if open {
			out[len(out)-1] += " " + strings.TrimSpace(text)
		} else {
			out = append(out, strings.TrimSpace(text))
		}
		open = more
	}
	return out
}

func (s *Stage) add(word, rest string) error {
	switch word {
	case "ARG":
		name, value, _ := strings.Cut(rest, "=")
		if given, ok := s.given[name]; ok {
			value = given
		}
		s.args[name] = value
	case "LABEL", "ENV":
		pairs, err := s.pairs(rest)
		for _, p := range pairs {
			if word == "ENV" {
				s.Env = append(s.Env, p[0]+"="+p[1])
			} else {
				s.Labels[p[0]] = p[1]
			}
		}
		return err
	case "COPY":
		return s.copy(rest)
	case "USER":
		s.User = rest
	case "EXPOSE":
		s.Ports = append(s.Ports, rest+"/tcp")
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(rest), &s.Entrypoint)
	default:
		return errors.New("unknown instruction")
	}
	return nil
}

func (s *Stage) copy(rest string) error {
	fields := strings.Fields(rest)
	if len(fields) != 3 || !strings.HasPrefix(fields[0], "--from=") {
		return errors.New("must be COPY --from=STAGE FILE FILE or COPY --from=STAGE FOLDER FOLDER/")
	}
	s.Copies = append(s.Copies, Copy{From: fields[1], To: fields[2]})
	return nil
}

// pairs parses pairs of the form name=value or name="value". It replaces build arguments in the values.
func (s *Stage) pairs(text string) (pairs [][2]string, err error) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		name, rest, ok := strings.Cut(text, "=")
		if !ok {
			return nil, errors.New("must be NAME=VALUE")
		}
		var value string
		if quoted, isQuoted := strings.CutPrefix(rest, `"`); isQuoted {
			value, text, ok = strings.Cut(quoted, `"`)
		} else {
			value, text, _ = strings.Cut(rest, " ")
		}
		if !ok {
			return nil, errors.New("quote is not closed")
		}
		value = os.Expand(value, func(arg string) string {
			expanded, known := s.args[arg]
			if !known {
				err = fmt.Errorf("no ARG %s", arg)
			}
			return expanded
		})
		pairs = append(pairs, [2]string{name, value})
	}
	return pairs, err
}
