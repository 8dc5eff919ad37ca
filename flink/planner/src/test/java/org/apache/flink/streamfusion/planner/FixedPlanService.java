package org.apache.flink.streamfusion.planner;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.UnaryOperator;

/** Answers with what a test decides and keeps the requests. */
final class FixedPlanService implements PlanService {

    static final String NOTHING_NATIVE =
            "{\"summary\": \"0 of n nodes run natively\", \"explain\": \"nothing runs natively\\n\", \"nodes\": [],"
                    + " \"stages\": []}";

    final List<String> requests = new ArrayList<>();
    private UnaryOperator<String> answer = request -> NOTHING_NATIVE;
    private String unavailable;

    FixedPlanService answer(UnaryOperator<String> answer) {
        this.answer = answer;
        return this;
    }

    FixedPlanService unavailable(String reason) {
        this.unavailable = reason;
        return this;
    }

    @Override
    public Optional<String> unavailableReason() {
        return Optional.ofNullable(unavailable);
    }

    @Override
    public String plan(String request) {
        requests.add(request);
        return answer.apply(request);
    }
}
