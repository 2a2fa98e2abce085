package ask

import (
	"cmp"
	"math"
	"slices"
)

// These constants are indexes of the samples in evidence. The first three samples count the days of the board itself:
// in this slot, in other slots of the node, and on other nodes. The last two samples count the days of other boards: in
// this slot, and in other slots of the node.
const (
	here = iota
	otherSlots
	otherNodes
	othersInSlot
	othersInNode
	samples
)

type evidence [samples]sample

// neighbours contains the days of all boards of the node.
func (t tally) compare(neighbours tally, at place) (e evidence) {
	uuids := make(map[string]bool)
	for own, failed := range t.days {
		uuids[own.uuid] = true
		switch {
		case !own.same(at):
			e[otherNodes].add(failed)
		case own.address == at.address:
			e[here].add(failed)
		default:
			e[otherSlots].add(failed)
		}
	}
	for other, failed := range neighbours.days {
		switch {
		case uuids[other.uuid] || !other.same(at):
		case other.address == at.address:
			e[othersInSlot].add(failed)
		default:
			e[othersInNode].add(failed)
		}
	}
	return e
}

func (s *sample) add(failed bool) {
	s.days++
	if failed {
		s.faulty++
	}
}

// fleet is the fault rate of healthy GPUs. "The Llama 3 Herd of Models" (2024) reports 256 faults of GPUs and their
// memory in 54 days on 16,384 GPUs. A GPU thus has one fault in 3,500 days.
var fleet = sample{1, 3500}

// causes contains the parts that may be faulty. If a part is faulty, the faulty days are in the samples that the field
// "with" lists.
var causes = []struct {
	name string
	with []int
}{
	{"board", []int{here, otherSlots, otherNodes}},
	{"slot", []int{here, othersInSlot}},
	{"node", []int{here, otherSlots, othersInSlot, othersInNode}},
}

const (
	// certain is the likelihood ratio that excludes a part: another part is this many times as likely to be faulty.
	certain = 20
	// maxOdds limits the odds, because consecutive days are not independent.
	maxOdds = 1000
)

// suspects returns the parts that may be faulty, with the most likely part first. It assumes that the fault rate on
// days with the faulty part is higher than on other days, and higher than the rate in fleet. odds is the ratio of the
// two highest likelihoods.
func (e evidence) suspects() (names []string, odds int64) {
	likelihoods := make([]float64, len(causes))
	for i, part := range causes {
		with, without := sample{}, fleet
		for j, s := range e {
			if slices.Contains(part.with, j) {
				with = with.and(s)
			} else {
				without = without.and(s)
			}
		}
		likelihoods[i] = with.and(without).likelihood()
		if with.share() > without.share() {
			likelihoods[i] = with.likelihood() + without.likelihood()
		}
	}
	order := []int{0, 1, 2}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(likelihoods[b], likelihoods[a])
	})
	best := likelihoods[order[0]]
	for _, i := range order {
		if best-likelihoods[i] < math.Log(certain) {
			names = append(names, causes[i].name)
		}
	}
	return names, int64(min(math.Exp(best-likelihoods[order[1]]), maxOdds))
}

func (s sample) share() float64 {
	if s.days == 0 {
		return 0
	}
	return float64(s.faulty) / float64(s.days)
}

// likelihood returns the log-likelihood of a sample. It uses the share of faulty days as the probability of a fault.
func (s sample) likelihood() float64 {
	term := func(n int, p float64) float64 {
		if n == 0 {
			return 0
		}
		return float64(n) * math.Log(p)
	}
	return term(s.faulty, s.share()) + term(s.days-s.faulty, 1-s.share())
}

// advice returns the swap that would show which of the suspects is faulty.
func (e evidence) advice(suspects []string) string {
	mayBe := func(name string) bool { return slices.Contains(suspects, name) }
	switch {
	case mayBe("board") && e[otherNodes].days == 0:
		return "put the board into another node, and repeat the command after some days"
	case mayBe("board") && e[othersInSlot].days == 0:
		return "put another board into its slot, and repeat the command after some days"
	case mayBe("slot") && mayBe("node") && e[otherSlots].days+e[othersInNode].days == 0:
		return "put a board into another slot of the node, and repeat the command after some days"
	}
	return "there are too few days to decide: repeat the command later"
}
