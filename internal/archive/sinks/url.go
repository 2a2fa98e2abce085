package sinks

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/address"
)

// kindOf returns nil if no kind has the URL scheme.
func kindOf(scheme string) *Kind {
	i := slices.IndexFunc(kinds, func(k *Kind) bool { return slices.Contains(k.Schemes, scheme) })
	if i < 0 {
		return nil
	}
	return kinds[i]
}

// IsURL reports whether a string is a URL, and not a path.
func IsURL(text string) bool {
	scheme, _, found := strings.Cut(strings.ToLower(text), ":")
	return found && kindOf(scheme) != nil || strings.Contains(text, "://")
}

// Flags in fs set the defaults for the parameters of the URL. Errors do not contain the URL, because it may contain a
// password.
func parse(name, text string, fs *flag.FlagSet) (*Kind, *Options, string, error) {
	scheme, _, _ := strings.Cut(strings.ToLower(text), ":")
	k := kindOf(scheme)
	if k == nil {
		path := ""
		if name == "--books" {
			path = "a path or "
		}
		return nil, nil, "", fmt.Errorf("%s must be %sa URL with one of the schemes %s, such as %s", name, path, Schemes(path != ""), kinds[0].Example)
	}
	at, err := k.split(text)
	if err != nil {
		return nil, nil, "", fmt.Errorf("%s=%s: %w", name, k.Schemes[0]+":…", err)
	}
	label := name + "=" + at.public
	o, err := k.options(at, fs)
	if err == nil {
		if err = k.valid(o); err != nil { // the error contains --s3.format for the parameter format
			err = errors.New(strings.ReplaceAll(err.Error(), "--"+cmp.Or(k.parameters, k.Flag), ""))
		}
	}
	if err != nil {
		return nil, nil, "", fmt.Errorf("%s: %w", label, err)
	}
	return k, o, label, nil
}

type parts struct {
	target     string // URL without the parameters for the sink
	parameters string // parameters for the sink, as key=value&key=value
	public     string // URL without secrets
}

func (k *Kind) split(text string) (parts, error) {
	if k.local {
		return k.splitLocal(text)
	}
	at, err := address.Parse(text)
	if err != nil {
		return parts{}, err
	}
	p := parts{target: text, public: address.Public(at)}
	switch {
	case k.fragment: // the path may be a secret
		p.target, _, _ = strings.Cut(text, "#")
		p.parameters, p.public = at.EscapedFragment(), at.Scheme+"://"+at.Host
	case k.parameters != "":
		p.target, p.parameters, _ = strings.Cut(text, "?")
		if own, others := k.own(p.parameters); k.driver {
			p.parameters = own
			if others != "" {
				p.target += "?" + others
			}
		}
	}
	return p, nil
}

// splitLocal splits a URL that is only a path: file:///absolute, file:/absolute or file:relative.
func (k *Kind) splitLocal(text string) (parts, error) {
	at, err := url.Parse(text)
	if err != nil {
		return parts{}, errors.New("invalid URL: the characters % ? # and spaces in a path must be percent-encoded")
	}
	if at.Host != "" && at.Host != "localhost" || at.User != nil {
		return parts{}, fmt.Errorf("must be %s:///PATH for an absolute path, or %s:PATH for a relative path", at.Scheme, at.Scheme)
	}
	path := at.Path
	if at.Opaque != "" {
		if path, err = url.PathUnescape(at.Opaque); err != nil {
			return parts{}, errors.New("invalid URL: the character % in a path must be percent-encoded")
		}
	}
	if path == "" {
		return parts{}, fmt.Errorf("nothing follows %s:, must be a URL such as %s", at.Scheme, k.Example)
	}
	return parts{path, at.RawQuery, at.Scheme + ":" + path}, nil
}

// own divides a query string into the parameters for the sink and the parameters for the driver. Their encoding does
// not change.
func (k *Kind) own(query string) (own, others string) {
	var ours, rest []string
	names := k.Parameters()
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(pair, "="); slices.Contains(names, name) {
			ours = append(ours, pair)
		} else {
			rest = append(rest, pair)
		}
	}
	return strings.Join(ours, "&"), strings.Join(rest, "&")
}

// options returns the options in a URL. A parameter has the same meaning as the flag with its name, but only for this
// sink. If a flag sets another sink of this kind, the secret in the flags belongs to that sink. No other server may
// receive it.
func (k *Kind) options(at parts, defaults *flag.FlagSet) (*Options, error) {
	o, fs := new(Options), flag.NewFlagSet("", flag.ContinueOnError)
	o.Register(fs)
	names, other := k.Parameters(), defaults.Lookup(k.Flag)
	for _, name := range names {
		if name == k.secret && other != nil && other.Value.String() != "" {
			continue
		}
		if given := defaults.Lookup(k.parameters + name); given != nil {
			if err := fs.Set(given.Name, given.Value.String()); err != nil {
				return nil, fmt.Errorf("--%s: %w", given.Name, err)
			}
		}
	}
	values, err := url.ParseQuery(at.parameters)
	if err != nil {
		return nil, errors.New("invalid parameters: the characters & % ; and spaces in a value must be percent-encoded")
	}
	for name, all := range values {
		if !slices.Contains(names, name) {
			if len(names) == 0 {
				return nil, errors.New("unknown parameter: a URL of this kind has no parameters")
			}
			return nil, fmt.Errorf("unknown parameter: must be %s", strings.Join(names, ", "))
		}
		if err := fs.Set(k.parameters+name, all[len(all)-1]); err != nil {
			return nil, fmt.Errorf("%s: invalid value", name)
		}
	}
	*k.target(o) = at.target
	return o, nil
}
