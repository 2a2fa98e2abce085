package sinks

import "flag"

// OptionsOf returns the options in a URL.
func OptionsOf(text string, fs *flag.FlagSet) (*Options, error) {
	_, o, _, err := parse("--to", text, fs)
	return o, err
}
