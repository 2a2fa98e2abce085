package ask

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

func TestSuspects(t *testing.T) {
	for name, test := range map[string]struct {
		e    evidence
		want string
	}{
		"faults in two nodes":                         {evidence{here: {4, 20}, otherNodes: {3, 15}, othersInSlot: {0, 20}, othersInNode: {0, 200}}, "board"},
		"faults in two slots, others are well":        {evidence{here: {4, 20}, otherSlots: {3, 15}, othersInSlot: {0, 20}, othersInNode: {0, 200}}, "board"},
		"the next board in the slot fails too":        {evidence{here: {4, 20}, otherNodes: {0, 30}, othersInSlot: {5, 20}, othersInNode: {0, 200}}, "slot"},
		"all boards of the node fail":                 {evidence{here: {4, 20}, otherNodes: {0, 30}, othersInSlot: {0, 0}, othersInNode: {30, 140}}, "node"},
		"all boards fail, the board was never moved":  {evidence{here: {4, 20}, othersInNode: {30, 140}}, "node"},
		"never moved, others are well":                {evidence{here: {4, 20}, othersInNode: {0, 140}}, "board or slot"},
		"one fault, moved yesterday":                  {evidence{here: {1, 20}, otherNodes: {0, 1}, othersInSlot: {0, 1}, othersInNode: {0, 140}}, "board or slot or node"},
		"one fault of a neighbour long ago":           {evidence{here: {6, 20}, otherNodes: {5, 20}, othersInSlot: {0, 20}, othersInNode: {1, 200}}, "board"},
		"one faulty day of a board alone in its node": {evidence{here: {1, 1}}, "board or slot or node"},
	} {
		if got, odds := test.e.suspects(); strings.Join(got, " or ") != test.want || odds < 1 {
			t.Errorf("%s: the suspect is %v, odds %v", name, got, odds)
		}
	}
}

// drawFaults draws clusters of this size. The faulty part is board 5, place 5, or the node with place 5.
const (
	drawnNodes, drawnSlots, drawnDays = 4, 4, 90
	faultyNumber                      = 5
)

// drawFaults draws a cluster with a faulty part. The boards are swapped once, and any board may have a fault by chance.
func drawFaults(random *rand.Rand, part string) (rows []books.Row) {
	var places [drawnNodes * drawnSlots]int // board in each place
	for i := range places {
		places[i] = i
	}
	rate := 0.02 + random.Float64()/2
	swap := 30 + random.IntN(30)
	for n := range drawnDays {
		if n == swap {
			random.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
		}
		for at, board := range places {
			node, slot := at/drawnSlots, at%drawnSlots
			guilty := map[string]bool{"board": board == faultyNumber, "slot": at == faultyNumber, "node": node == faultyNumber/drawnSlots}[part]
			g := table.GPU{
				Cluster: "east", Hour: time.Unix(0, 0).UTC().AddDate(0, 0, n), Node: fmt.Sprint(node), UUID: fmt.Sprint(board),
				PCIBusID: fmt.Sprint(slot), SystemUUID: fmt.Sprint("m", node), Scrapes: 1, XIDs: table.Counts{"13": 5},
			}
			if guilty && random.Float64() < rate || random.IntN(2000) == 0 {
				g.XIDs["79"] = int64(1 + random.IntN(50))
			}
			rows = append(rows, books.Row{GPU: g})
		}
	}
	return rows
}

// TestFaultyPart checks the suspects for the board with the most faulty days. In nearly all clusters, the faulty part
// must be among the suspects. In most clusters, it must be the only suspect.
func TestFaultyPart(t *testing.T) {
	const draws = 200
	wrong, sole := 0, 0
	for seed := range uint64(draws) {
		random := rand.New(rand.NewPCG(seed, 0))
		part := causes[random.IntN(len(causes))].name
		rows := drawFaults(random, part)
		var worst tally
		most := -1
		for _, board := range boardsIn(rows) {
			own, faulty := newTally(board), 0
			for _, failed := range own.days {
				if failed {
					faulty++
				}
			}
			if faulty > most {
				worst, most = own, faulty
			}
		}
		at, _ := worst.worst()
		names, _ := worst.compare(newTally(rows), at).suspects()
		switch {
		case !slices.Contains(names, part):
			wrong++
		case len(names) == 1:
			sole++
		}
	}
	t.Logf("of %d faulty parts, %d were the only suspect and %d were no suspect", draws, sole, wrong)
	if wrong > draws/20 || sole < draws*3/4 {
		t.Error("the suspects are wrong more often than one in twenty, or mostly unclear")
	}
}
