package blindness

import "slices"

// A knownFault is a fault of the exporter that is not fixed yet. It explains violations of rules in plays
// with one of the kinds of spells, or with any if there is none. They are printed, and do not fail.
type knownFault struct {
	rules, kinds []string
	fault        string
}

var knownFaults = []knownFault{
	{[]string{ruleCounters}, []string{"state full"}, "a restart while the disk is full begins new books"},
	{
		[]string{ruleActive, ruleHeldLess, ruleExclusive, ruleCounters, ruleEnergyLess},
		[]string{"proc empty", "proc missing", "proc hidden"},
		"without /proc, held time stops, and a restart begins new books",
	},
	{
		[]string{ruleHeldLess, ruleActive},
		[]string{"counter frozen", "counter late", "energy fails"},
		"while a counter cannot be read, holders that begin or end are lost",
	},
}

// Known returns the description of the fault that explains a violation, or "".
func (p *Play) Known(v Violation) string {
	for _, f := range knownFaults {
		has := f.kinds == nil || slices.ContainsFunc(p.Spells, func(s Spell) bool { return slices.Contains(f.kinds, Kinds[s.Kind].Name) })
		if has && slices.Contains(f.rules, v.Rule) {
			return f.fault
		}
	}
	return ""
}
