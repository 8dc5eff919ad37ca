package org.apache.flink.streamfusion.nexmark;

import java.util.List;
import java.util.Locale;

/** A bar for each query: how many times as fast as stock Flink. */
final class BenchChart {
    private static final int WIDTH = 720;
    private static final int LEFT = 60;
    private static final int RIGHT = 60;
    private static final int TOP = 56;
    private static final int ROW = 22;
    private static final int BAR = 14;
    private static final String FASTER = "#2a7f62";
    private static final String SLOWER = "#c0392b";

    private BenchChart() {}

    static String svg(BenchReport report) {
        List<BenchReport.Line> lines = report.lines().stream().filter(BenchReport.Line::isComplete).toList();
        double highest = lines.stream().mapToDouble(BenchReport.Line::ratio).max().orElse(1);
        double scale = (WIDTH - LEFT - RIGHT) / Math.max(1, highest);
        int height = TOP + ROW * lines.size() + 20;
        StringBuilder svg = new StringBuilder();
        svg.append("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">%n"
                .formatted(WIDTH, height));
        svg.append("<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
        text(svg, 10, 20, "Nexmark: times as fast as stock Flink, geometric mean "
                + String.format(Locale.ROOT, "%.2f", report.geometricMean()));
        text(svg, 10, 38, BenchReport.title(report.setup(), report.heapMib()));
        int y = TOP;
        for (BenchReport.Line line : lines) {
            double ratio = line.ratio();
            text(svg, 10, y + 11, line.query());
            svg.append(String.format(
                    Locale.ROOT,
                    "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>%n",
                    LEFT, y, ratio * scale, BAR, ratio < 1 ? SLOWER : FASTER));
            text(svg, LEFT + ratio * scale + 6, y + 11, String.format(Locale.ROOT, "%.1f", ratio));
            y += ROW;
        }
        svg.append(String.format(
                Locale.ROOT,
                "<line x1=\"%1$.1f\" y1=\"%2$d\" x2=\"%1$.1f\" y2=\"%3$d\" stroke=\"#333\" stroke-dasharray=\"3 3\"/>%n</svg>%n",
                LEFT + scale, TOP - 6, y));
        return svg.toString();
    }

    private static void text(StringBuilder svg, double x, double y, String text) {
        svg.append(String.format(Locale.ROOT, "<text x=\"%.1f\" y=\"%.1f\">%s</text>%n", x, y, text));
    }
}
